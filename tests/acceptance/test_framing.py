"""Frames: their order, their size, their ends, and what the tables inside them keep."""

from __future__ import annotations

import pytest

from acceptance.raw_client import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Login,
    RawClient,
    encode_properties,
    header_payload,
)
from acceptance.raw_methods import Typed, encode_method
from live_broker import ConnectRaw, Names

NO_PROPERTIES = b"\0\0"
SMALL_FRAMES = Login(frame_max=4096)

EVERY_TYPE = {
    "bool": Typed("t", True), "i8": Typed("b", -8), "u8": Typed("B", 200), "i16": Typed("s", -1600),
    "u16": Typed("u", 60000), "i32": Typed("I", -(2**31)), "u32": Typed("i", 2**32 - 1),
    "i64": Typed("l", -(2**63)), "timestamp": Typed("T", 1700000000), "float": Typed("f", 1.5),
    "double": Typed("d", 0.1), "decimal": Typed("D", (2, 314)), "text": Typed("S", b"word"),
    "bytes": Typed("x", b"\x00\xff"), "void": Typed("V", None),
    "table": Typed("F", {"inner": Typed("s", 1)}),
    "array": Typed("A", [Typed("S", b"one"), Typed("B", 2), Typed("V", None)]),
}  # fmt: skip


def begin_publish(client: RawClient, queue: str) -> None:
    client.send(1, "basic.publish", routing_key=queue)


def declare(client: RawClient, names: Names) -> str:
    queue = names("queue")
    client.call(1, "queue.declare", queue=queue)
    return queue


def round_trip(client: RawClient, queue: str, body: bytes, properties: bytes) -> bytes:
    """Publish and get one message; its property block as it came back."""
    client.publish(1, body, properties, routing_key=queue)
    message = client.get(1, queue)
    assert message is not None
    assert message.body == body
    return message.property_block


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (
            (BODY, b"body"),
            "expected content header for class 60, got non content header frame instead",
        ),
        (
            (HEADER, header_payload(4, NO_PROPERTIES, class_id=50)),
            "expected content header for class 60, got one for class 50 instead",
        ),
        (
            (METHOD, encode_method("basic.get", queue="q")),
            "expected content header for class 60, got non content header frame instead",
        ),
    ],
    ids=["T025-body-without-header", "T026-header-of-another-class", "method-instead-of-header"],
)
def test_a_publish_must_be_followed_by_its_header(
    raw: ConnectRaw, frame: tuple[int, bytes], text: str
) -> None:
    """T025, T026: anything else ends the connection with 505."""
    client = raw()
    begin_publish(client, "nowhere")
    client.send_frame(frame[0], 1, frame[1])
    assert client.expect_connection_close(505).reply_text == f"UNEXPECTED_FRAME - {text}"


def test_a_header_must_be_followed_by_its_body(raw: ConnectRaw) -> None:
    """T027: a method where body frames are due ends the connection with 505."""
    client = raw()
    begin_publish(client, "nowhere")
    client.send_frame(HEADER, 1, header_payload(4, NO_PROPERTIES))
    client.send(1, "basic.get", queue="q")
    assert client.expect_connection_close(505).reply_text == (
        "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
    )


def test_a_body_out_of_nowhere_is_unexpected(raw: ConnectRaw) -> None:
    """T025: without basic.publish before it a body frame is a 505."""
    client = raw()
    client.send_frame(BODY, 1, b"lost")
    assert client.expect_connection_close(505).reply_text == (
        "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
    )


def test_a_heartbeat_off_channel_zero_is_unexpected(raw: ConnectRaw) -> None:
    """T016: heartbeats belong to the connection; on a channel they are a 505."""
    client = raw()
    client.send_frame(HEARTBEAT, 1, b"")
    client.expect_connection_close(505)


def test_a_frame_beyond_the_tolerance_is_too_large(raw: ConnectRaw) -> None:
    """T028: a payload of frame_max + 1 ends the connection with 501."""
    client = raw(SMALL_FRAMES)
    begin_publish(client, "nowhere")
    client.send_frame(HEADER, 1, header_payload(4097, NO_PROPERTIES))
    client.send_frame(BODY, 1, b"x" * 4097)
    close = client.expect(0, "connection.close")
    assert close.reply_code == 501
    assert "frame_too_large" in close.reply_text


def test_a_payload_of_exactly_frame_max_is_tolerated(raw: ConnectRaw, names: Names) -> None:
    """T029: eight bytes more than the rules allow still pass."""
    client = raw(SMALL_FRAMES)
    queue = declare(client, names)
    assert round_trip(client, queue, b"x" * 4096, NO_PROPERTIES) == NO_PROPERTIES


def test_a_wrong_end_octet_is_a_frame_error(raw: ConnectRaw) -> None:
    """T030: 501 that says which marker was found."""
    client = raw()
    client.send_frame(METHOD, 1, encode_method("basic.get", queue="q"), end=0xCD)
    close = client.expect(0, "connection.close")
    assert close.reply_code == 501
    assert "invalid_frame_end_marker" in close.reply_text


def test_an_unknown_frame_type_is_a_frame_error(raw: ConnectRaw) -> None:
    """T030: type 9 ends the connection with 501."""
    client = raw()
    client.send_frame(9, 1, b"????")
    close = client.expect(0, "connection.close")
    assert close.reply_code == 501
    assert "unknown_frame" in close.reply_text


def test_a_big_message_is_delivered_in_negotiated_frames(raw: ConnectRaw, names: Names) -> None:
    """T031: 1 MB sent in large frames comes back in frames no larger than the reader takes."""
    writer, reader = raw(), raw(SMALL_FRAMES)
    queue = declare(writer, names)
    body = bytes(range(256)) * 4096
    piece = 131072 - 8
    begin_publish(writer, queue)
    writer.send_frame(HEADER, 1, header_payload(len(body), NO_PROPERTIES))
    for offset in range(0, len(body), piece):
        writer.send_frame(BODY, 1, body[offset : offset + piece])
    reader.call(1, "basic.consume", queue=queue, no_ack=True)
    message = reader.expect_content(1, "basic.deliver")
    assert message.body == body
    assert max(message.frame_sizes) <= 4096


def test_an_empty_message_has_no_body_frame(raw: ConnectRaw, names: Names) -> None:
    """T032: header with size 0 is the whole content, both ways."""
    client = raw()
    queue = declare(client, names)
    client.call(1, "basic.consume", queue=queue, no_ack=True)
    client.publish(1, b"", routing_key=queue)
    message = client.expect_content(1, "basic.deliver")
    assert (message.body, message.frame_sizes) == (b"", [])
    client.expect_silence()


def test_headers_of_every_type_come_back_as_they_were(raw: ConnectRaw, names: Names) -> None:
    """T033: the property block is forwarded byte for byte, types and order included."""
    client = raw()
    queue = declare(client, names)
    properties = encode_properties(headers=EVERY_TYPE, priority=3, message_id="m-1", type="")
    assert round_trip(client, queue, b"typed", properties) == properties


@pytest.mark.parametrize("letter", ["l", "L"])
def test_a_long_is_signed(raw: ConnectRaw, names: Names, letter: str) -> None:
    """T034: -1 as a 64-bit header survives whichever letter carries it."""
    client = raw()
    queue = declare(client, names)
    properties = encode_properties(headers={"n": Typed(letter, -1)})
    client.publish(1, b"", properties, routing_key=queue)
    message = client.get(1, queue)
    assert message is not None
    assert message.properties["headers"]["n"].value == -1


def test_a_header_set_on_a_consumer_argument_may_have_any_type(
    raw: ConnectRaw, names: Names
) -> None:
    """T033: tables in methods know the same types as tables in headers."""
    client = raw()
    queue = declare(client, names)
    assert client.call(1, "basic.consume", queue=queue, arguments=EVERY_TYPE).consumer_tag


def test_a_long_error_text_is_cut_to_a_short_string(raw: ConnectRaw) -> None:
    """T035: a missing queue with 250 letters in its name; the text ends in dots."""
    client = raw()
    client.send(1, "queue.declare", queue="q" * 250, passive=True)
    text = client.expect_channel_close(1, 404).reply_text
    assert text == ("NOT_FOUND - no queue '" + "q" * 250)[:252] + "..."


def test_bad_utf8_in_a_name_is_a_frame_error(raw: ConnectRaw) -> None:
    """T030: names are UTF-8; 501 says so."""
    client = raw()
    client.send(1, "queue.declare", queue=b"\xff\xfe")
    assert "Malformed UTF-8 in shortstr" in client.expect_connection_close(501).reply_text
