"""gRPC over HTTP/2 without a server: what goes out, and what is made of what comes in."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder

from warren.metadata.grpc_frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    GOAWAY,
    HEADERS,
    MESSAGE_BYTES_MAX,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_DEFAULT,
    WINDOW_STEP,
    WINDOW_UPDATE,
    BrokenConnection,
    Ended,
    GrpcConnection,
    Message,
    Status,
    frame,
)

_NAMES = {"status": ":status", "grpc_status": "grpc-status", "grpc_message": "grpc-message"}


def headers(**fields: str) -> bytes:
    """As a server writes them that keeps no table."""
    encoder = Encoder()
    encoder.header_table_size = 0
    named = [(_NAMES.get(name, name), value) for name, value in fields.items()]
    return bytes(encoder.encode(named, huffman=True))


def message(octets: bytes) -> bytes:
    return b"\0" + len(octets).to_bytes(4, "big") + octets


FIRST = headers(status="200")
LAST = headers(grpc_status="0", grpc_message="")


def frames_of(octets: bytes) -> list[tuple[int, int, int, bytes]]:
    found = []
    while octets:
        size = int.from_bytes(octets[:3], "big")
        number = int.from_bytes(octets[5:9], "big")
        found.append((octets[3], octets[4], number, octets[9 : 9 + size]))
        octets = octets[9 + size :]
    return found


def greeted(is_tls: bool = False) -> GrpcConnection:
    connection = GrpcConnection("etcd:2379", is_tls)
    assert connection.take().startswith(PREFACE)
    return connection


def answer(stream: int, octets: bytes) -> bytes:
    return (
        frame(HEADERS, END_HEADERS, stream, FIRST)
        + frame(DATA, 0, stream, message(octets))
        + frame(HEADERS, END_HEADERS | END_STREAM, stream, LAST)
    )


@pytest.mark.parametrize(("is_tls", "scheme"), [(False, "http"), (True, "https")])
def test_a_call_is_headers_that_any_server_reads_and_a_message(is_tls: bool, scheme: str) -> None:
    connection = greeted(is_tls)
    token = "t" * 300
    stream = connection.begin("/etcdserverpb.KV/Put", [("token", token)])
    connection.send(stream, b"request", is_last=True)
    (kind, flags, number, block), data = frames_of(connection.take())
    assert (kind, flags, number) == (HEADERS, END_HEADERS, 1)
    assert dict(Decoder().decode(block)) == {
        ":method": "POST",
        ":scheme": scheme,
        ":authority": "etcd:2379",
        ":path": "/etcdserverpb.KV/Put",
        "content-type": "application/grpc",
        "te": "trailers",
        "token": token,
    }
    assert data == (DATA, END_STREAM, 1, message(b"request"))


def test_an_answer_is_the_same_however_it_is_cut() -> None:
    whole = greeted()
    stream = whole.begin("/a")
    octets = answer(stream, b"answer")
    expected = [Message(1, b"answer"), Ended(1, 0, "")]
    assert whole.feed(octets) == expected
    for cut in range(len(octets)):
        connection = greeted()
        connection.begin("/a")
        assert connection.feed(octets[:cut]) + connection.feed(octets[cut:]) == expected


def test_many_messages_of_a_stream_may_share_a_frame_or_need_several() -> None:
    connection = greeted()
    stream = connection.begin("/watch")
    big = bytes(3 * FRAME_BYTES_MAX)
    octets = message(b"one") + message(b"") + message(big)
    pieces = [octets[i : i + FRAME_BYTES_MAX] for i in range(0, len(octets), FRAME_BYTES_MAX)]
    events = connection.feed(b"".join(frame(DATA, 0, stream, piece) for piece in pieces))
    assert events == [Message(1, b"one"), Message(1, b""), Message(1, big)]


def test_a_failure_carries_its_code_and_its_text() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    block = headers(status="200", grpc_status="5", grpc_message="no such lease%3A 7")
    events = connection.feed(frame(HEADERS, END_HEADERS | END_STREAM, stream, block))
    assert events == [Ended(1, 5, "no such lease: 7")]


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (frame(RST_STREAM, 0, 1, (7).to_bytes(4, "big")), Status.UNAVAILABLE),
        (frame(DATA, END_STREAM, 1, message(b"")), Status.INTERNAL),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(status="200")), Status.UNKNOWN),
        (frame(HEADERS, END_HEADERS | END_STREAM, 1, headers(status="502")), Status.UNKNOWN),
        (frame(GOAWAY, 0, 0, bytes(8)), Status.UNAVAILABLE),
    ],
)
def test_a_call_that_ends_without_an_answer_fails(octets: bytes, status: int) -> None:
    connection = greeted()
    connection.begin("/a")
    last = connection.feed(octets)[-1]
    assert isinstance(last, Ended)
    assert last.status == status


def test_headers_may_be_padded_ranked_and_continued() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    padded = b"\x03" + bytes(5) + LAST[:2] + bytes(3)
    events = connection.feed(
        frame(HEADERS, END_STREAM | PADDED | PRIORITY, stream, padded)
        + frame(CONTINUATION, END_HEADERS, stream, LAST[2:])
    )
    assert events == [Ended(1, 0, "")]


def test_what_is_sent_keeps_to_the_windows_of_the_server() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    request = bytes(WINDOW_DEFAULT + 10)
    connection.send(stream, request, is_last=True)
    sent = [f for f in frames_of(connection.take()) if f[0] == DATA]
    assert sum(len(payload) for *_, payload in sent) == WINDOW_DEFAULT
    assert max(len(payload) for *_, payload in sent) <= FRAME_BYTES_MAX
    assert not any(flags & END_STREAM for _, flags, _, _ in sent)
    wide = (1000).to_bytes(4, "big")
    connection.feed(frame(WINDOW_UPDATE, 0, 0, wide))
    assert not frames_of(connection.take()), "the stream's own window is still shut"
    connection.feed(frame(WINDOW_UPDATE, 0, stream, wide))
    rest = frames_of(connection.take())
    assert [(kind, flags, len(payload)) for kind, flags, _, payload in rest] == [
        (DATA, END_STREAM, 15)
    ]


def test_a_wider_window_of_the_settings_lets_out_what_waits() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    connection.send(stream, bytes(WINDOW_DEFAULT), is_last=True)
    connection.take()
    connection.feed(frame(WINDOW_UPDATE, 0, 0, (1000).to_bytes(4, "big")))
    wider = (4).to_bytes(2, "big") + (WINDOW_DEFAULT + 100).to_bytes(4, "big")
    connection.feed(frame(SETTINGS, 0, 0, wider))
    acknowledged, rest = frames_of(connection.take())
    assert acknowledged == (SETTINGS, ACK, 0, b"")
    assert rest == (DATA, END_STREAM, 1, bytes(5))


def test_what_was_received_opens_the_windows_again() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    connection.take()
    for _ in range(WINDOW_STEP // FRAME_BYTES_MAX):
        connection.feed(frame(DATA, 0, stream, message(bytes(FRAME_BYTES_MAX - 5))))
    opened = [(number, payload) for kind, _, number, payload in frames_of(connection.take())]
    assert opened == [(0, WINDOW_STEP.to_bytes(4, "big")), (1, WINDOW_STEP.to_bytes(4, "big"))]


def test_a_server_that_goes_away_finishes_what_it_has_begun() -> None:
    connection = greeted()
    first, second = connection.begin("/a"), connection.begin("/b")
    events = connection.feed(frame(GOAWAY, 0, 0, first.to_bytes(4, "big") + bytes(4)))
    assert events == [Ended(second, Status.UNAVAILABLE, "the server is going away")]
    assert connection.is_leaving
    assert connection.feed(answer(first, b"yet")) == [Message(first, b"yet"), Ended(first, 0, "")]


def test_an_answer_to_a_call_that_was_given_up_is_passed_over() -> None:
    connection = greeted()
    stream = connection.begin("/a")
    connection.take()
    connection.cancel(stream)
    assert [kind for kind, *_ in frames_of(connection.take())] == [RST_STREAM]
    assert connection.feed(answer(stream, b"late")) == []


def test_a_ping_is_answered_with_what_it_brought() -> None:
    connection = greeted()
    connection.feed(frame(PING, 0, 0, b"12345678"))
    assert frames_of(connection.take()) == [(PING, ACK, 0, b"12345678")]


@pytest.mark.parametrize(
    "octets",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        (FRAME_BYTES_MAX + 1).to_bytes(3, "big") + bytes(6),
        frame(DATA, 0, 1, b"\x01" + bytes(4)),
        frame(DATA, 0, 1, b"\0" + (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big")),
        frame(DATA, PADDED, 1, b"\x09"),
        frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
        frame(HEADERS, 0, 1, FIRST) + frame(PING, 0, 0, bytes(8)),
        frame(CONTINUATION, END_HEADERS, 1, FIRST),
        frame(WINDOW_UPDATE, 0, 0, b"\0"),
        frame(SETTINGS, 0, 0, bytes(5)),
    ],
)
def test_what_no_server_of_grpc_sends_breaks_the_connection(octets: bytes) -> None:
    connection = greeted()
    connection.begin("/a")
    with pytest.raises(BrokenConnection):
        connection.feed(octets)
