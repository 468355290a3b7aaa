"""EXTERNAL: clients whose certificate is their login."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pika
import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from pika.adapters.blocking_connection import BlockingConnection
from pika.credentials import ExternalCredentials

from acceptance.control import Control
from certificates import Authority
from tls.conftest import Open, TlsBroker

SUBJECT = x509.Name(
    [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Some, Org"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.c"),
        x509.NameAttribute(NameOID.USER_ID, "uid1"),
        x509.NameAttribute(NameOID.COMMON_NAME, "a client "),
    ]
)
# As RabbitMQ 3.10.8 calls the user of such a certificate.
USER = "CN=a client\\ ,UID=uid1,EMAILADDRESS=a@b.c,O=Some\\, Org,C=DE"


def add_user(broker: TlsBroker, name: str) -> None:
    control = Control(f"http://127.0.0.1:{broker.http_port}")
    control.ok("add_user", name, "not used")
    control.ok("set_permissions", name, ".*", ".*", ".*")


def test_the_distinguished_name_of_the_certificate_is_the_user(
    tls_broker: TlsBroker, authority: Authority, open_tls: Open
) -> None:
    add_user(tls_broker, USER)
    client = authority.issue("external", subject=SUBJECT)
    connection = open_tls(client, credentials=ExternalCredentials())
    assert connection.channel().queue_declare("", exclusive=True)
    (shown,) = [c for c in tls_broker.ask("/api/connections") if c["user"] == USER]
    assert shown["auth_mechanism"] == "EXTERNAL"
    assert shown["peer_cert_subject"] == USER


def refusal_of(open_connection: Callable[[], BlockingConnection]) -> str:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as refused:
        open_connection()
    return str(refused.value)


def test_a_certificate_that_names_no_user_is_refused_like_a_bad_password(
    tls_broker: TlsBroker, authority: Authority, open_tls: Open
) -> None:
    nobody = authority.issue("nobody-we-know")
    told = refusal_of(lambda: open_tls(nobody, credentials=ExternalCredentials()))
    assert "Login was refused using authentication mechanism EXTERNAL" in told
    line = tls_broker.await_line("connection refused", "nobody-we-know")
    assert "EXTERNAL login refused: user 'CN=nobody-we-know' - invalid credentials" in line


def test_without_a_certificate_external_is_offered_and_refused(
    tls_broker: TlsBroker, open_tls: Open
) -> None:
    refusal_of(lambda: open_tls(credentials=ExternalCredentials()))
    assert tls_broker.await_line("connection peer presented no TLS (x.509) certificate")


def test_on_the_plain_port_external_is_not_offered(tls_broker: TlsBroker) -> None:
    parameters = pika.ConnectionParameters(
        *tls_broker.address, credentials=ExternalCredentials(), socket_timeout=30
    )
    with pytest.raises(pika.exceptions.AMQPError, match=r"EXTERNAL|PLAIN"):
        BlockingConnection(parameters)


@pytest.mark.parametrize(
    ("settings", "user"),
    [
        ("ssl_cert_login_from = common_name\n", "chosen"),
        (
            "ssl_cert_login_from = subject_alternative_name\nssl_cert_login_san_index = 1\n",
            "chosen.example",
        ),
    ],
)
def test_what_of_the_certificate_is_the_user_can_be_chosen(
    tmp_path: Path, settings: str, user: str
) -> None:
    authority = Authority(tmp_path / "authority")
    broker = TlsBroker(tmp_path, authority, settings)
    broker.start()
    try:
        add_user(broker, user)
        context = broker.context(authority.issue("chosen"))
        parameters = broker.parameters(context, credentials=ExternalCredentials())
        with BlockingConnection(parameters) as connection:
            (shown,) = broker.ask("/api/connections")
            assert connection.is_open
            assert shown["user"] == user
    finally:
        broker.stop()
