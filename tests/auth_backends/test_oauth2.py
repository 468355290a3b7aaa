"""Users with tokens: signatures, scopes, new secrets, and tokens that end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from auth_backends.conftest import BackedBroker, Start
from auth_backends.token_issuer import TokenIssuer

WITHIN_S = 60.0


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer(tmp_path_factory.mktemp("issuer"))
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def broker(start: Start, issuer: TokenIssuer) -> BackedBroker:
    return start("auth_backends.1 = oauth2\nauth_backends.2 = internal\n" + issuer.settings)


def test_scopes_are_permissions(broker: BackedBroker, issuer: TokenIssuer) -> None:
    token = issuer.token("configure:%2F/mine-*", "write:%2F/mine-*", "read:*/mine-*")
    with broker.connect("whoever", token) as connection:
        channel = connection.channel()
        channel.queue_declare("mine-1", exclusive=True)
        channel.exchange_declare("mine-x", "fanout", auto_delete=True)
        channel.queue_bind("mine-1", "mine-x")
        channel.confirm_delivery()
        channel.basic_publish("mine-x", "", b"body", pika.BasicProperties(user_id="ann"))
        assert channel.basic_get("mine-1", auto_ack=True)[2] == b"body"
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_declare("theirs")
        assert caught.value.reply_text == (
            "ACCESS_REFUSED - access to queue 'theirs' in vhost '/' refused for user 'ann'"
        )


def test_a_topic_needs_a_scope_with_its_routing_key(
    broker: BackedBroker, issuer: TokenIssuer
) -> None:
    token = issuer.token("write:*/amq.topic/a.*", "write:*/amq.*")
    with broker.connect("", token) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "a.b", b"permitted")
        with pytest.raises(ChannelClosedByBroker, match="access to topic 'bb'"):
            channel.basic_publish("amq.topic", "bb", b"refused")


@pytest.mark.parametrize("fault", ["audience", "signature", "key", "expired", "text", "unsigned"])
def test_a_token_that_is_not_for_this_broker_is_refused(
    broker: BackedBroker, issuer: TokenIssuer, fault: str
) -> None:
    stranger = rsa.generate_private_key(65537, 2048)
    good = issuer.token("read:*/*")
    tokens = {
        "audience": issuer.token("read:*/*", aud=["another"]),
        "signature": issuer.token("read:*/*", signed_by=stranger),
        "key": issuer.token("read:*/*", signed_by=stranger, key_id="nobody has it"),
        "expired": issuer.token("read:*/*", lasts_s=-10),
        "text": "no token",
        "unsigned": ".".join([*good.split(".")[:2], ""]),
    }
    refusal = broker.refusal("ann", tokens[fault])
    assert "Login was refused using authentication mechanism PLAIN" in refusal
    with broker.connect("ann", good) as connection:
        assert connection.is_open


def test_a_vhost_without_a_scope_cannot_be_opened(
    broker: BackedBroker, issuer: TokenIssuer
) -> None:
    refusal = broker.refusal("ann", issuer.token("read:other/*"))
    assert "NOT_ALLOWED - access to vhost '/' refused for user 'ann'" in refusal


def test_a_connection_ends_with_its_token(broker: BackedBroker, issuer: TokenIssuer) -> None:
    connection = broker.connect("ann", issuer.token("read:*/*", lasts_s=15))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(WITHIN_S)
    assert caught.value.reply_code == 320
    assert caught.value.reply_text == "CONNECTION_FORCED - credentials expired"


def test_a_new_secret_keeps_a_connection_and_changes_what_it_may(
    broker: BackedBroker, issuer: TokenIssuer
) -> None:
    first = issuer.token("configure:*/*", "write:*/*", lasts_s=20)
    with broker.connect("ann", first) as connection:
        channel = connection.channel()
        channel.queue_declare("renewed", exclusive=True)
        channel.basic_publish("", "renewed", b"permitted")
        connection.update_secret(issuer.token("configure:*/*"), "it ends soon")
        ends = time.monotonic() + 22  # longer than the first token lasted
        while time.monotonic() < ends:
            connection.process_data_events(0.5)
        assert channel.queue_declare("renewed", passive=True).method.message_count == 1
        channel.basic_publish("", "renewed", b"refused")
        with pytest.raises(ChannelClosedByBroker, match=r"access to exchange 'amq\.default'"):
            channel.queue_declare("renewed", passive=True)


def test_a_secret_of_somebody_else_closes_the_connection(
    broker: BackedBroker, issuer: TokenIssuer
) -> None:
    connection = broker.connect("ann", issuer.token("read:*/*"))
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.update_secret(issuer.token("read:*/*", sub="bob"), "another user")
    assert caught.value.reply_code == 530
    assert caught.value.reply_text == (
        "NOT_ALLOWED - New secret was refused by one of the backends"
    )


def test_the_http_api_takes_tokens(broker: BackedBroker, issuer: TokenIssuer) -> None:
    token = issuer.token("tag:monitoring", "tag:management", "read:*/*")
    whoami = broker.api("ann", token).get("whoami")
    assert (whoami.body["name"], whoami.body["tags"]) == ("ann", ["management", "monitoring"])
    assert broker.api("ann", issuer.token("read:*/*")).get("whoami").status == 401


def test_a_key_that_is_new_is_fetched_once(start: Start, issuer: TokenIssuer) -> None:
    broker = start("auth_backends.1 = oauth2\n" + issuer.settings)
    before = issuer.key_requests
    for _ in range(3):
        with broker.connect("ann", issuer.token("read:*/*")):
            pass
    assert issuer.key_requests == before + 1
    issuer.new_key("second")
    broker.await_line("signing keys fetched")
    time.sleep(10)  # so long a broker does not look again
    with broker.connect("ann", issuer.token("read:*/*", key_id="second")):
        pass
    assert issuer.key_requests == before + 2


def test_a_key_may_be_in_a_file(start: Start, issuer: TokenIssuer, tmp_path: Path) -> None:
    path = tmp_path / "first.pem"
    path.write_bytes(issuer.public_pem())
    broker = start(
        "auth_backends.1 = oauth2\nauth_oauth2.resource_server_id = warren\n"
        f"auth_oauth2.signing_keys.first = {path}\nauth_oauth2.algorithms.1 = RS256\n"
        "auth_oauth2.preferred_username_claims.1 = email\n"
    )
    with broker.connect("", issuer.token("read:*/*", email="ann@example.org")):
        broker.await_line("connection opened", "ann@example.org")


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ("auth_oauth2.jwks_url = https://x.example/", "auth_oauth2.resource_server_id"),
        ("auth_oauth2.resource_server_id = warren", "auth_oauth2.jwks_url"),
        (
            "auth_oauth2.resource_server_id = x\nauth_oauth2.signing_keys.a = /nowhere.pem",
            "auth_oauth2.signing_keys",
        ),
    ],
)
def test_a_backend_that_cannot_work_is_refused_at_the_start(
    tmp_path: Path, config: str, key: str
) -> None:
    broker = BackedBroker(tmp_path, f"auth_backends.1 = oauth2\n{config}\n")
    assert broker.launch().wait(WITHIN_S) != 0
    assert f"{key}: " in broker.log()
