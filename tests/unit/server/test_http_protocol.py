"""Clients that hold connections shut out nobody: time limits, and room for those who ask."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from starlette.types import Receive, Scope, Send

from warren.config.values import Endpoint
from warren.server import http_protocol
from warren.server.http import HttpServer
from warren.server.http_protocol import READY_PATH

CONNECTIONS = 20
HALF_A_HEAD = b"GET /slow HTTP/1.1\r\nHost: x\r\n"
WAIT_S = 30.0


class Application:
    """Answers what it was sent, /held once `go` is set, and /unread without reading it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.held: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            self.held.put_nowait(scope["path"])
            await self.go.wait()
        if scope["path"] == "/unread":
            await send({"type": "http.response.start", "status": 413, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        size = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": size})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch, application: Application) -> AsyncIterator[int]:
    monkeypatch.setattr(http_protocol, "CONNECTIONS_MAX", CONNECTIONS)
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 0.4)
    monkeypatch.setattr(http_protocol, "LOOK_S", 0.05)
    server = HttpServer(Endpoint("127.0.0.1", 0))
    server.bind()
    await server.start(application)
    yield server.endpoint.port
    application.go.set()
    await server.stop()


async def send(port: int, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return reader, writer


async def status_of(port: int, path: str = "/") -> int:
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    reader, writer = await send(port, request.encode())
    answer = await asyncio.wait_for(reader.read(), WAIT_S)
    writer.close()
    return int(answer.split()[1])


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), WAIT_S) == b""
    except ConnectionResetError:
        return True


async def hold(port: int, application: Application, count: int) -> list[asyncio.StreamWriter]:
    """Requests that are being answered until `application.go`."""
    request = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
    writers = [(await send(port, request))[1] for _ in range(count)]
    async with asyncio.timeout(WAIT_S):
        for _ in range(count):
            await application.held.get()
    return writers


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD], ids=["nothing", "half a head"])
async def test_a_head_that_does_not_come_ends_the_connection(port: int, sent: bytes) -> None:
    reader, writer = await send(port, sent)
    assert await is_closed(reader)
    writer.close()


async def test_a_client_of_amqp_is_told_at_once_that_it_has_the_wrong_port(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 10 * WAIT_S)
    reader, writer = await send(port, b"AMQP\x00\x00\x09\x01")
    answer = await asyncio.wait_for(reader.read(), WAIT_S)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"AMQP has another port.")
    writer.close()


async def test_a_head_that_comes_drop_by_drop_ends_the_connection_too(port: int) -> None:
    reader, writer = await send(port, HALF_A_HEAD)
    ended = asyncio.ensure_future(is_closed(reader))
    async with asyncio.timeout(WAIT_S):
        while not ended.done():
            writer.write(b"x")
            await asyncio.sleep(0.05)
    assert ended.result()
    writer.close()


async def test_a_body_that_does_not_go_on_ends_the_connection(port: int) -> None:
    reader, writer = await send(
        port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nbeginning"
    )
    assert await is_closed(reader)
    writer.close()


async def test_a_body_that_goes_on_may_take_longer_than_a_head(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 3.0)
    pieces, piece = 35, b"b" * http_protocol.BODY_BYTES_MIN
    head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {pieces * len(piece)}\r\n"
    reader, writer = await send(port, f"{head}Connection: close\r\n\r\n".encode())
    for _ in range(pieces):
        writer.write(piece)
        await asyncio.sleep(0.1)
    answer = await asyncio.wait_for(reader.read(), WAIT_S)
    assert answer.endswith(piece * pieces)
    writer.close()


async def test_a_request_that_takes_long_to_answer_goes_on(
    port: int, application: Application
) -> None:
    asking = asyncio.ensure_future(status_of(port, "/held"))
    await asyncio.sleep(1)
    assert not asking.done()
    application.go.set()
    assert await asking == 200


async def test_half_sent_requests_shut_out_nobody(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_S_MAX", 600.0)
    held = [await send(port, HALF_A_HEAD) for _ in range(CONNECTIONS + 5)]
    for _ in range(CONNECTIONS):
        assert await status_of(port) == 200
    assert await is_closed(held[0][0]), "the one that has waited longest makes room"
    for _, writer in held:
        writer.close()


async def test_requests_beyond_the_limit_are_refused_but_for_the_readiness_check(
    port: int, application: Application
) -> None:
    writers = await hold(port, application, CONNECTIONS)
    assert await status_of(port) == 503
    assert await status_of(port, READY_PATH) == 200
    application.go.set()
    for writer in writers:
        writer.close()


LARGE = 10_000_000
LARGE_REQUEST = b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LARGE


async def write_large_body(writer: asyncio.StreamWriter) -> None:
    for _ in range(100):
        writer.write(b"b" * (LARGE // 100))
        await writer.drain()


async def test_a_refusal_of_a_large_body_gets_to_a_client_that_sends_all_of_it_first(
    port: int,
) -> None:
    reader, writer = await send(port, LARGE_REQUEST)
    async with asyncio.timeout(WAIT_S):
        await write_large_body(writer)
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_body_is_not_read_for_ever_after_its_refusal(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "UNWANTED_BYTES_MAX", LARGE // 5)
    _, writer = await send(port, LARGE_REQUEST)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(ConnectionError):
            await write_large_body(writer)
    writer.close()


async def test_a_large_body_is_read_piece_by_piece_with_turns_for_others_in_between(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all that is in the socket, one piece a turn."""
    turn, reads = 0, Counter[int]()
    read = http_protocol.HttpProtocol.data_received

    def counted(self: http_protocol.HttpProtocol, data: bytes) -> None:
        reads[turn] += 1
        read(self, data)

    monkeypatch.setattr(http_protocol.HttpProtocol, "data_received", counted)
    sender = socket.create_connection(("127.0.0.1", port))
    sent = asyncio.create_task(asyncio.to_thread(_send_all, sender))
    while not sent.done():
        turn += 1
        await asyncio.sleep(0)
    assert await sent == b"HTTP/1.1 413"
    sender.close()
    assert sum(reads.values()) > 10, "it did not come at once"
    assert max(reads.values()) == 1


def _send_all(sender: socket.socket) -> bytes:
    sender.settimeout(WAIT_S)
    sender.sendall(LARGE_REQUEST + b"b" * LARGE)
    return sender.recv(12)
