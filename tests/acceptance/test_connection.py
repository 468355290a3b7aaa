"""How a connection begins, what is negotiated, and how it ends."""

from __future__ import annotations

import time
from typing import NoReturn

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import HEARTBEAT, PROTOCOL_HEADER, ConnectionEnded, Login, RawClient
from acceptance.raw_methods import encode_table
from live_broker import ConnectRaw, Names

CAPABILITIES = {
    "publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
    "connection.blocked", "consumer_priorities", "authentication_failure_close",
    "per_consumer_qos", "direct_reply_to",
}  # fmt: skip


def start_ok(client: RawClient, mechanism: str, response: bytes, *capabilities: str) -> None:
    """Greet and answer connection.start in a given way."""
    client.greet()
    client.send(
        0,
        "connection.start-ok",
        client_properties={"capabilities": dict.fromkeys(capabilities, True)},
        mechanism=mechanism,
        response=response,
        locale="en_US",
    )


def read_only_heartbeats(client: RawClient) -> NoReturn:
    while True:
        assert client.receive().type == HEARTBEAT


def test_a_foreign_protocol_gets_our_header_and_the_door(raw: ConnectRaw) -> None:
    """T001: send HTTP; AMQP 0-0-9-1 comes back and the socket closes."""
    client = raw(opened_up=False)
    client.send_bytes(b"HTTP/1.1")
    assert client.read_bytes(8) == PROTOCOL_HEADER
    client.expect_end()


def test_the_header_of_0_9_is_answered(raw: ConnectRaw) -> None:
    """T002: AMQP 1 1 0 9 is taken as 0-9 and connection.start arrives."""
    client = raw(opened_up=False)
    client.send_bytes(b"AMQP\x01\x01\x00\x09")
    start = client.expect(0, "connection.start")
    assert (start.version_major, start.version_minor) == (0, 9)


def test_start_names_the_product_and_nine_capabilities(raw: ConnectRaw) -> None:
    """T003: product, version and the capabilities clients look for, all true."""
    properties = raw(opened_up=False).greet().server_properties
    assert properties["product"].value == b"RabbitMQ"
    assert properties["version"].value.startswith(b"3.")
    capabilities = properties["capabilities"].value
    assert {name for name, flag in capabilities.items() if flag == ("t", True)} == CAPABILITIES


def test_start_offers_plain_and_amqplain_in_english(raw: ConnectRaw) -> None:
    """T003: mechanisms and locales are lists of words."""
    start = raw(opened_up=False).greet()
    assert set(start.mechanisms.split()) >= {b"PLAIN", b"AMQPLAIN"}
    assert b"en_US" in start.locales.split()


def test_a_plain_login_is_offered_the_default_tuning(raw: ConnectRaw) -> None:
    """T004: guest logs in on loopback; 2047 channels, 128 KiB frames, heartbeat 60."""
    tune = raw(opened_up=False).log_in(Login())
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_a_wrong_password_is_refused_with_a_reason(raw: ConnectRaw) -> None:
    """T005: a client that can take it gets connection.close 403."""
    client = raw(opened_up=False)
    start_ok(client, "PLAIN", b"\0guest\0wrong", "authentication_failure_close")
    close = client.expect_connection_close(403)
    assert close.reply_text == (
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
    client.expect_end()


def test_a_wrong_password_without_the_capability_closes_silently(raw: ConnectRaw) -> None:
    """T006: the socket closes after a pause and without a word."""
    client = raw(opened_up=False)
    asked = time.monotonic()
    start_ok(client, "PLAIN", b"\0guest\0wrong")
    client.expect_end()
    assert time.monotonic() - asked > 1, "guessing passwords should cost time"


def test_a_plain_response_without_nuls_is_a_syntax_error(raw: ConnectRaw) -> None:
    """T007: the response of PLAIN is NUL user NUL password and nothing else."""
    client = raw(opened_up=False)
    start_ok(client, "PLAIN", b"guest", "authentication_failure_close")
    client.expect_refusal(502, "invalid")


def test_amqplain_logs_in(raw: ConnectRaw) -> None:
    """T008: a table body without its length, with LOGIN and PASSWORD."""
    client = raw(opened_up=False)
    body = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    start_ok(client, "AMQPLAIN", body, "authentication_failure_close")
    client.expect(0, "connection.tune")


def test_amqplain_without_a_password_is_refused(raw: ConnectRaw) -> None:
    """T008: a missing field is the client's mistake, not a login."""
    client = raw(opened_up=False)
    body = encode_table({"LOGIN": "guest"})[4:]
    start_ok(client, "AMQPLAIN", body, "authentication_failure_close")
    client.expect_refusal(502, "SYNTAX_ERROR")


def test_an_unknown_mechanism_fails_the_handshake(raw: ConnectRaw) -> None:
    """T009: 503 that names the mechanism, or no answer at all."""
    client = raw(opened_up=False)
    start_ok(client, "X", b"", "authentication_failure_close")
    client.expect_refusal(503, "COMMAND_INVALID - unknown authentication mechanism 'X'")


@pytest.mark.parametrize(
    ("login", "text"),
    [
        (
            Login(frame_max=100),
            "negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
        ),
        (
            Login(channel_max=0),
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (
            Login(channel_max=2048),
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
    ],
    ids=["T011-frame-max-too-small", "T012-channel-max-unlimited", "T013-channel-max-higher"],
)
def test_tuning_outside_the_offer_is_not_allowed(raw: ConnectRaw, login: Login, text: str) -> None:
    """T011, T012, T013: 530 that names the value and the bound, or no answer at all."""
    client = raw(opened_up=False)
    client.log_in(login)
    client.accept_tuning(login)
    client.expect_refusal(530, f"NOT_ALLOWED - {text}")


def test_a_missing_vhost_is_not_allowed(raw: ConnectRaw) -> None:
    """T014: 530 vhost nope not found."""
    client = raw(opened_up=False)
    client.log_in(Login())
    client.accept_tuning(Login())
    client.send(0, "connection.open", virtual_host="nope")
    assert "vhost nope not found" in client.expect_connection_close(530).reply_text


def test_an_idle_broker_sends_heartbeats(raw: ConnectRaw) -> None:
    """T016: with an interval of 1 s a heartbeat comes, on channel 0 and empty, before silence of
    that interval would end the connection."""
    client = raw(Login(heartbeat=1))
    frame = client.receive()
    assert (frame.type, frame.channel, frame.payload) == (HEARTBEAT, 0, b"")


def test_a_silent_client_is_dropped_after_missed_heartbeats(raw: ConnectRaw) -> None:
    """T017: with an interval of 1 s silence ends the connection after 2 to 3.5 s; a busy machine
    may add to that."""
    began = time.monotonic()
    client = raw(Login(heartbeat=1))
    with pytest.raises(ConnectionEnded):
        read_only_heartbeats(client)
    assert 1.7 < time.monotonic() - began < 15.0


def read_to_the_end(client: RawClient) -> None:
    """Read what comes until the broker ends the connection in order."""
    while client.socket.recv(65536):
        pass


def test_a_silent_client_is_reset(raw: ConnectRaw) -> None:
    """T017: not an orderly close, after which the client's next write would seem to succeed."""
    client = raw(Login(heartbeat=1))
    with pytest.raises(ConnectionResetError):
        read_to_the_end(client)


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_connection_closed_by_an_error_is_reset(raw: ConnectRaw, is_answered: bool) -> None:
    """T017: when the client answers close, or after the heartbeat's interval."""
    client = raw(Login(heartbeat=1))
    client.send(1, "channel.open")
    client.expect(0, "connection.close")
    if is_answered:
        client.send(0, "connection.close-ok")
    with pytest.raises(ConnectionResetError):
        read_to_the_end(client)


def test_without_heartbeats_idleness_is_fine(raw: ConnectRaw) -> None:
    """T018: interval 0; nobody is dropped in the time that drops a client with interval 1."""
    client = raw(Login(heartbeat=0))
    client.expect_silence(3.6)
    client.call(2, "channel.open")


def test_a_channel_before_the_vhost_is_an_error(raw: ConnectRaw) -> None:
    """T019: channel.open before connection.open is a frame nobody expects, 505."""
    client = raw(opened_up=False)
    client.log_in(Login())
    client.accept_tuning(Login())
    client.send(1, "channel.open")
    client.expect_connection_close(505)


def test_exclusive_queues_are_gone_before_close_ok(raw: ConnectRaw, names: Names) -> None:
    """T020: once close-ok is read, another connection may declare the same name."""
    queue = names("exclusive")
    owner, other = raw(), raw()
    owner.call(1, "queue.declare", queue=queue, exclusive=True)
    owner.call(0, "connection.close", reply_code=200, reply_text="bye")
    assert other.call(1, "queue.declare", queue=queue).consumer_count == 0


def test_after_close_ok_the_client_closes_the_socket(raw: ConnectRaw) -> None:
    """T020: the broker waits for it; some clients take an end that comes sooner for a failure."""
    client = raw()
    client.call(0, "connection.close", reply_code=200, reply_text="bye")
    client.expect_silence(0.3)


def test_update_secret_keeps_the_connection(raw: ConnectRaw) -> None:
    """T176: update-secret is answered and the connection goes on working."""
    client = raw()
    client.call(0, "connection.update-secret", new_secret=b"fresh", reason="rotation")
    client.call(2, "channel.open")


def test_a_dropped_socket_frees_exclusive_queues(raw: ConnectRaw, names: Names) -> None:
    """T046: a connection that vanishes without a word counts as ended."""
    queue = names("exclusive")
    owner, other = raw(), raw(channels=0)
    owner.call(1, "queue.declare", queue=queue, exclusive=True)
    owner.drop()
    number = iter(range(1, 1000))

    def is_free() -> bool:
        channel = next(number)
        other.call(channel, "channel.open")
        other.send(channel, "queue.declare", queue=queue)
        answer = other.receive()
        return answer.payload[:4] == b"\x00\x32\x00\x0b"

    eventually(is_free)
