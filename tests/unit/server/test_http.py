"""The HTTP side with a real socket: ready or not."""

from __future__ import annotations

import asyncio
import json

import pytest

from warren.config.values import Endpoint
from warren.server.http import READY_PATH, HttpServer, bare_application
from warren.server.sockets import CannotListenError


async def get(port: int, path: str) -> tuple[int, object]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    status = int(head.split()[1])
    return status, json.loads(body) if status != 404 else body


async def test_ready_is_503_until_amqp_is_open_and_200_then() -> None:
    reason = "AMQP is not open"
    server = HttpServer(Endpoint("127.0.0.1", 0))
    server.bind()
    await server.start(bare_application(lambda: reason))
    port = server.endpoint.port
    assert await get(port, READY_PATH) == (
        503,
        {"status": "failed", "reason": "AMQP is not open"},
    )
    reason = ""
    assert await get(port, READY_PATH) == (200, {"status": "ok"})
    assert (await get(port, "/api/nothing"))[0] == 404
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_server_that_was_only_bound_can_be_stopped() -> None:
    server = HttpServer(Endpoint("127.0.0.1", 0))
    server.bind()
    await server.stop()
    await server.stop()


async def test_a_taken_port_is_named_with_its_option() -> None:
    first = HttpServer(Endpoint("127.0.0.1", 0))
    first.bind()
    await first.start(bare_application(lambda: ""))
    second = HttpServer(first.endpoint)
    with pytest.raises(CannotListenError, match=r"for HTTP on .* --http-port"):
        second.bind()
    await first.stop()
