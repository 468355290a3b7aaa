"""Clients that send nonsense: each gets the right answer, nobody else notices."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    ConnectionEnded,
    Login,
    RawClient,
    frame_bytes,
    header_payload,
)
from acceptance.raw_methods import decode_method, encode_method
from broker_process import Address, BrokerProcess
from chaos.conftest import CountComplaints
from live_broker import ConnectRaw, Names

FRAMING_CODES = {501, 502, 503, 504, 505}
ATTEMPTS = 50


def ending(client: RawClient) -> int | None:
    """Read to the end of the connection; the code of connection.close if there was one."""
    code = None
    try:
        while True:
            frame = client.receive()
            if frame.type == METHOD and frame.payload[:4] == b"\x00\x0a\x00\x32":
                code = decode_method(frame.payload).reply_code
                client.send(0, "connection.close-ok")
    except (ConnectionEnded, ConnectionError):
        return code


def test_noise_instead_of_a_greeting(broker: Address, chance: random.Random) -> None:
    """Random bytes get the protocol header and the end of the connection."""
    for _ in range(ATTEMPTS):
        with RawClient(broker) as client:
            client.send_bytes(chance.randbytes(chance.randint(8, 300)))
            assert client.read_bytes(8) == PROTOCOL_HEADER
            assert ending(client) is None


def test_a_greeting_that_never_ends(raw: ConnectRaw) -> None:
    """Less than a header, then nothing: the connection waits, and nobody else does."""
    clients = [raw(opened_up=False) for _ in range(20)]
    for client in clients:
        client.send_bytes(PROTOCOL_HEADER[:5])
    for client in clients:
        client.expect_silence(0.01)
        client.send_bytes(PROTOCOL_HEADER[5:])
        client.expect(0, "connection.start")


def test_noise_after_the_login(raw: ConnectRaw, chance: random.Random) -> None:
    """Random bytes where frames belong end the connection with a framing error."""
    for _ in range(ATTEMPTS):
        client = raw()
        client.send_bytes(chance.randbytes(64))
        frame = client.receive()
        close = decode_method(frame.payload)
        assert (frame.channel, close.name) == (0, "connection.close")
        assert close.reply_code in FRAMING_CODES
        client.drop()


def valid_conversation(queue: str) -> bytes:
    """What a client might send on channel 1: every kind of frame is in it."""
    methods = [
        encode_method("queue.declare", queue=queue, arguments={"x-expires": 60000, "n": [1, "a"]}),
        encode_method("queue.bind", queue=queue, exchange="amq.topic", routing_key="a.*.#"),
        encode_method("basic.qos", prefetch_count=5),
        encode_method("basic.consume", queue=queue, consumer_tag="me"),
        encode_method("confirm.select"),
    ]
    frames = [frame_bytes(METHOD, 1, method) for method in methods]
    frames.append(frame_bytes(METHOD, 1, encode_method("basic.publish", routing_key=queue)))
    frames.append(frame_bytes(HEADER, 1, header_payload(5, b"\x10\x00\x02")))
    frames.append(frame_bytes(BODY, 1, b"hello"))
    frames.append(frame_bytes(METHOD, 1, encode_method("basic.ack", delivery_tag=1)))
    return b"".join(frames)


def reads_a_close(client: RawClient, within_s: float) -> bool:
    """Whether the connection ends, or the broker agrees to end it, before it falls silent."""
    try:
        while True:
            frame = client.receive(within_s)
            method = decode_method(frame.payload).name if frame.type == METHOD else ""
            if method in {"connection.close", "connection.close-ok"}:
                return True
    except (ConnectionEnded, ConnectionError):
        return True
    except TimeoutError:
        return False


def ends_in_order(client: RawClient) -> bool:
    """A size may have grown, so that a farewell is taken for the rest of a frame: then say it
    until the largest frame is filled."""
    farewell = frame_bytes(METHOD, 0, encode_method("connection.close", reply_code=200))
    try:
        client.send_bytes(farewell)
        if reads_a_close(client, within_s=0.5):
            return True
        client.send_bytes(farewell * (2 * 131072 // len(farewell)))
    except ConnectionError:
        return True
    return reads_a_close(client, within_s=30)


def test_damaged_conversations(raw: ConnectRaw, names: Names, chance: random.Random) -> None:
    """A few bytes of valid traffic changed: it may work, fail or wait, but it always ends."""
    for attempt in range(ATTEMPTS):
        client = raw()
        conversation = bytearray(valid_conversation(names(f"damaged-{attempt}")))
        for _ in range(chance.randint(1, 4)):
            conversation[chance.randrange(len(conversation))] = chance.randrange(256)
        client.send_bytes(bytes(conversation))
        assert ends_in_order(client), f"changed to {bytes(conversation)!r}"
        client.drop()


def test_conversations_cut_short(raw: ConnectRaw, names: Names, chance: random.Random) -> None:
    """The socket closes in the middle of a frame: what was complete before it holds."""
    witness = raw()
    for attempt in range(ATTEMPTS):
        queue = names(f"cut-{attempt}")
        conversation = valid_conversation(queue)
        declaration = 8 + struct.unpack(">I", conversation[3:7])[0]
        client = raw()
        client.send_bytes(conversation[: chance.randrange(declaration, len(conversation))])
        client.expect(1, "queue.declare-ok")
        client.drop()
        assert witness.call(1, "queue.declare", queue=queue, passive=True).queue == queue


@pytest.mark.parametrize("kind", [METHOD, HEADER, BODY])
def test_a_frame_of_four_gigabytes(raw: ConnectRaw, complaints: CountComplaints, kind: int) -> None:
    """A size beyond frame_max is refused by its header alone, with one line in the log."""
    client = raw()
    client.send_bytes(struct.pack(">BHI", kind, 1, 0xFFFFFFFF))
    close = client.expect_connection_close(501)
    assert "frame_too_large" in close.reply_text
    eventually(lambda: complaints(client) >= 1)
    assert complaints(client) == 1


def test_a_message_of_an_exabyte(raw: ConnectRaw, own_broker: BrokerProcess | None) -> None:
    """Announcing one reserves no memory: it is refused, or waited for."""
    before = own_broker.resident_bytes() if own_broker else 0
    for _ in range(20):
        client = raw()
        client.send(1, "basic.publish", routing_key="nowhere")
        client.send_frame(HEADER, 1, header_payload(2**60, b"\0\0"))
        client.send_frame(BODY, 1, b"the beginning of it")
        if own_broker:
            client.expect_channel_close(1, 406)
    if own_broker:
        assert own_broker.resident_bytes() - before < 16 * 2**20


def test_tables_nested_without_end(raw: ConnectRaw) -> None:
    """Ten thousand tables in each other: answered or refused, never a stack overflow."""
    table = b""
    for _ in range(10_000):
        table = b"\x01nF" + struct.pack(">I", len(table)) + table
    client = raw()
    client.send(1, "queue.declare", exclusive=True, arguments=table)
    answer = decode_method(client.receive().payload)
    if answer.name != "queue.declare-ok":
        assert (answer.name, answer.reply_code) == ("connection.close", 502)


@pytest.mark.parametrize("table", [b"\x05abc", b"\x01aZ", b"\x01aS\xff\xff\xff\xff", b"\xff"])
def test_tables_that_lie(raw: ConnectRaw, complaints: CountComplaints, table: bytes) -> None:
    """Lengths beyond the end and letters nobody knows: 502, or the end of the connection."""
    client = raw()
    client.send(1, "queue.declare", queue="never", arguments=table)
    client.expect_refusal(502, "SYNTAX_ERROR")
    eventually(lambda: complaints(client) >= 1)
    assert complaints(client) == 1


WRONG_ORDER: list[tuple[str, int, str, dict[str, Any], int]] = [
    ("open-twice", 0, "connection.open", {"virtual_host": "/"}, 504),
    ("tune-again", 0, "connection.tune-ok", {}, 504),
    ("start-again", 0, "connection.start-ok", {"mechanism": "PLAIN"}, 504),
    ("channel-zero", 0, "channel.open", {}, 504),
    ("publish-on-zero", 0, "basic.publish", {}, 504),
    ("close-ok-unasked", 0, "connection.close-ok", {}, 504),
    ("answer-unasked", 1, "queue.declare-ok", {}, 503),
    ("close-on-a-channel", 1, "connection.close", {"reply_code": 200}, 503),
    ("never-opened", 9, "queue.declare", {}, 504),
]


@pytest.mark.parametrize(
    ("channel", "method", "fields", "code"),
    [pytest.param(*case[1:], id=case[0]) for case in WRONG_ORDER],
)
def test_the_wrong_order(
    raw: ConnectRaw,
    complaints: CountComplaints,
    channel: int,
    method: str,
    fields: dict[str, Any],
    code: int,
) -> None:
    """Methods where they do not belong: the right code, the end, and one line in the log."""
    client = raw()
    client.send(channel, method, **fields)
    client.expect_connection_close(code)
    client.expect_end()
    eventually(lambda: complaints(client) >= 1)
    assert complaints(client) == 1


def test_a_flood_of_channels(raw: ConnectRaw) -> None:
    """All 2047 channels opened at once work; one more ends that connection."""
    client = raw(channels=0)
    opens = [frame_bytes(METHOD, n, encode_method("channel.open")) for n in range(1, 2048)]
    client.send_bytes(b"".join(opens))
    answers = [client.receive() for _ in opens]
    assert {decode_method(answer.payload).name for answer in answers} == {"channel.open-ok"}
    assert {answer.channel for answer in answers} == set(range(1, 2048))
    client.send(2048, "channel.open")
    client.expect_connection_close(530)


def test_a_channel_opened_and_closed_for_ever(
    raw: ConnectRaw, own_broker: BrokerProcess | None
) -> None:
    """Thousands of times the same number: nothing is left behind."""
    client = raw(channels=0)

    def churn(times: int) -> None:
        for _ in range(times):
            client.call(1, "channel.open")
            client.call(1, "channel.close", reply_code=200)

    churn(300)
    before = own_broker.resident_bytes() if own_broker else 0
    churn(3000)
    if own_broker:
        assert own_broker.resident_bytes() - before < 4 * 2**20


def test_a_flood_of_failing_logins(broker: Address, complaints: CountComplaints) -> None:
    """Wrong passwords side by side: each is refused, with one line each."""
    clients = [RawClient(broker) for _ in range(20)]
    login = Login(password="wrong")
    for client in clients:
        client.greet()
        client.send(
            0,
            "connection.start-ok",
            client_properties=login.client_properties,
            mechanism="PLAIN",
            response=login.plain,
            locale="en_US",
        )
    for client in clients:
        client.expect_connection_close(403)
        eventually(lambda refused=client: complaints(refused) >= 1)  # type: ignore[misc]
        assert complaints(client) == 1
        client.drop()
