"""AMQP over TLS with pika: messages, listings, and clients that are not let in."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from certificates import Authority
from tls.conftest import Open, TlsBroker

HANDSHAKE_FAILED = "TLS handshake failed"
# With TLS 1.3 a client may hear of it when it has sent its first AMQP already.
REFUSED = (ssl.SSLError, pika.exceptions.AMQPError, ConnectionError)


def test_messages_of_all_sizes_go_there_and_back(open_tls: Open) -> None:
    channel = open_tls().channel()
    channel.confirm_delivery()
    queue = channel.queue_declare("", exclusive=True).method.queue
    bodies = [bytes([n % 251]) * size for n, size in enumerate((0, 1, 100, 20_000, 3_000_000))]
    for body in bodies:
        channel.basic_publish("", queue, body)
    received = [channel.basic_get(queue, auto_ack=True)[2] for _ in bodies]
    assert received == bodies


def test_thousands_of_deliveries_keep_their_order(open_tls: Open) -> None:
    channel = open_tls().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for number in range(3_000):
        channel.basic_publish("", queue, b"%d " % number + b"x" * 200)
    numbers = []
    for method, _, body in channel.consume(queue, inactivity_timeout=30):
        assert method is not None, f"only {len(numbers)} came"
        numbers.append(int(body.split()[0]))
        if len(numbers) == 3_000:
            channel.basic_ack(method.delivery_tag, multiple=True)
            break
    assert numbers == list(range(3_000))


def test_what_a_client_leaves_unacked_when_it_is_cut_off_is_given_to_another(
    tls_broker: TlsBroker, open_tls: Open
) -> None:
    first = open_tls()
    channel = first.channel()
    queue = channel.queue_declare("left-unacked", auto_delete=False).method.queue
    channel.basic_publish("", queue, b"once more")
    assert channel.basic_get(queue)[2] == b"once more"
    with socket.socket(fileno=os.dup(first._impl._transport._sock.fileno())) as cut:
        cut.shutdown(socket.SHUT_RDWR)  # no goodbye, neither AMQP's nor TLS's
    second = open_tls().channel()
    for method, properties, body in second.consume(queue, inactivity_timeout=30):
        assert (body, method.redelivered) == (b"once more", True), properties
        break
    second.queue_delete(queue)


def test_a_connection_shows_how_it_is_encrypted(tls_broker: TlsBroker, open_tls: Open) -> None:
    name = "shown over TLS"
    open_tls(client_properties={"connection_name": name})
    (shown,) = [
        connection
        for connection in tls_broker.ask("/api/connections")
        if connection["user_provided_name"] == name
    ]
    assert shown["ssl"] is True
    assert shown["ssl_protocol"] == "tlsv1.3"
    assert shown["ssl_key_exchange"] == "any"
    assert shown["ssl_cipher"] == "aes_256_gcm"
    assert shown["ssl_hash"] == "aead"
    assert shown["peer_cert_subject"] is None
    assert shown["port"] == tls_broker.amqps_port


def test_a_connection_shows_the_certificate_of_its_client(
    tls_broker: TlsBroker, authority: Authority, open_tls: Open
) -> None:
    client = authority.issue("shown-client")
    open_tls(client, client_properties={"connection_name": "with a certificate"})
    (shown,) = [
        connection
        for connection in tls_broker.ask("/api/connections")
        if connection["user_provided_name"] == "with a certificate"
    ]
    assert shown["peer_cert_subject"] == "CN=shown-client"
    assert shown["peer_cert_issuer"] == "CN=authority"
    times = (client.certificate.not_valid_before_utc, client.certificate.not_valid_after_utc)
    first, last = (moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in times)
    assert shown["peer_cert_validity"] == f"{first} - {last}"


def test_listeners_and_health_checks_know_the_tls_port(tls_broker: TlsBroker) -> None:
    listeners = {
        (listener["protocol"], listener["port"])
        for listener in tls_broker.ask("/api/overview")["listeners"]
    }
    assert ("amqp/ssl", tls_broker.amqps_port) in listeners
    assert ("https", tls_broker.https_port) in listeners
    checks = "/api/health/checks"
    assert tls_broker.ask(f"{checks}/protocol-listener/amqps")["status"] == "ok"
    assert tls_broker.ask(f"{checks}/port-listener/{tls_broker.amqps_port}")["status"] == "ok"


def test_a_plain_client_on_the_tls_port_is_refused_and_others_go_on(
    tls_broker: TlsBroker, open_tls: Open
) -> None:
    other = open_tls().channel()
    with socket.create_connection(("127.0.0.1", tls_broker.amqps_port), 30) as plain:
        plain.sendall(b"AMQP\0\0\x09\x01")
        peer = "{}:{}".format(*plain.getsockname())
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(100)[:4] != b"AMQP"
        line = tls_broker.await_line(HANDSHAKE_FAILED, peer)
    assert "does not speak TLS" in line
    assert f"port=127.0.0.1:{tls_broker.amqps_port}" in line
    assert other.queue_declare("", exclusive=True).method.message_count == 0


def test_a_tls_client_on_the_plain_port_is_refused(tls_broker: TlsBroker) -> None:
    with (
        socket.create_connection(tls_broker.address, 30) as raw,
        contextlib.suppress(OSError),
    ):
        peer = "{}:{}".format(*raw.getsockname())
        tls_broker.context().wrap_socket(raw, server_hostname="localhost")
    assert "the client speaks TLS" in tls_broker.await_line("connection refused", peer)


def test_a_client_that_shows_an_expired_certificate_is_refused_and_told(
    tls_broker: TlsBroker, authority: Authority
) -> None:
    expired = authority.issue("expired", days=-1)
    context = tls_broker.context(expired)
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # with 1.3 it hears of it at its first read
    with pytest.raises(REFUSED, match="certificate expired"):
        BlockingConnection(tls_broker.parameters(context))
    assert "expired" in tls_broker.await_line(HANDSHAKE_FAILED, "certificate has expired")


def test_a_client_that_shows_a_certificate_of_another_authority_is_refused(
    tls_broker: TlsBroker, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "other", "stranger").issue("stranger-client")
    with pytest.raises(REFUSED):
        BlockingConnection(tls_broker.parameters(tls_broker.context(stranger)))
    assert tls_broker.await_line(HANDSHAKE_FAILED, "unable to get local issuer certificate")


def test_a_client_that_shows_no_certificate_is_refused_where_one_is_wanted(
    authority: Authority, tmp_path: Path
) -> None:
    wanted = TlsBroker(tmp_path, authority, "ssl_options.fail_if_no_peer_cert = true\n")
    wanted.start()
    try:
        with pytest.raises(REFUSED):
            BlockingConnection(wanted.parameters(wanted.context()))
        assert wanted.await_line(HANDSHAKE_FAILED, "the client shows no certificate")
        shown = wanted.context(authority.issue("with-one"))
        BlockingConnection(wanted.parameters(shown)).close()
    finally:
        wanted.stop()


def test_a_client_that_does_not_trust_the_broker_is_named_in_the_log(
    tls_broker: TlsBroker, tmp_path: Path
) -> None:
    context = ssl.create_default_context(
        cafile=str(Authority(tmp_path / "other", "unknown").cacertfile)
    )
    with pytest.raises(REFUSED):
        BlockingConnection(tls_broker.parameters(context))
    assert tls_broker.await_line(HANDSHAKE_FAILED, "does not know who issued our certificate")
