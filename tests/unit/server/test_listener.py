"""Listening with real sockets on the loopback: refusals, limits, and errors worth reading."""

from __future__ import annotations

import asyncio
import io
import resource
import socket
from typing import cast

import pytest

from warren.config.values import Endpoint
from warren.model.logs import configure_logs
from warren.server.clock import LoopClock
from warren.server.listener import (
    VISITS_PER_TURN_MAX,
    AmqpListener,
    ConnectionRegistry,
    connection_limit,
    format_peer,
    raise_descriptor_limit,
)
from warren.server.sockets import CannotListenError, bind, is_loopback

WITHIN_S = 60.0

LOCAL = Endpoint("127.0.0.1", 0)


class Greeter(asyncio.Protocol):
    """Stands in for an AMQP connection: registers itself, says hello, stays."""

    def __init__(self, registry: ConnectionRegistry) -> None:
        self._registry = registry
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._registry.add(self)
        self._transport.write(b"hello")

    def connection_lost(self, _error: Exception | None) -> None:
        self._registry.remove(self)

    def shut_down(self, reason: str) -> None:
        assert self._transport is not None
        self._transport.write(reason.encode())
        self._transport.close()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def close_overdue_channels(self) -> None:
        """A greeter has no channels."""


def listener_of(registry: ConnectionRegistry) -> AmqpListener:
    return AmqpListener(lambda: Greeter(registry), registry, LoopClock(), backlog=16)


async def first_bytes(endpoint: Endpoint) -> tuple[bytes, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    return await reader.read(100), writer


async def test_clients_are_served_once_open_and_refused_before() -> None:
    registry = ConnectionRegistry(10)
    listener = listener_of(registry)
    listener.bind((LOCAL,))
    (endpoint,) = listener.endpoints
    assert endpoint.port > 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(endpoint.host, endpoint.port)
    await listener.open()
    data, writer = await first_bytes(endpoint)
    assert data == b"hello"
    assert len(registry) == 1
    writer.close()
    await asyncio.wait_for(registry.wait_empty(), WITHIN_S)
    listener.close()


async def test_a_closed_listener_keeps_its_connections_and_takes_no_more() -> None:
    registry = ConnectionRegistry(10)
    listener = listener_of(registry)
    listener.bind((LOCAL,))
    (endpoint,) = listener.endpoints
    await listener.open()
    _, writer = await first_bytes(endpoint)
    listener.close()
    assert not listener.is_open
    assert len(registry) == 1
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(endpoint.host, endpoint.port)
    writer.close()


class Visited:
    """A connection of a registry that does nothing."""

    def shut_down(self, reason: str) -> None:
        """Nothing to say."""

    def abort(self) -> None:
        """Nothing to drop."""

    def close_overdue_channels(self) -> None:
        """No channels."""


async def test_very_many_connections_are_visited_in_slices_and_others_have_their_turn() -> None:
    count = 2 * VISITS_PER_TURN_MAX + 5
    registry = ConnectionRegistry(count)
    connections = [Visited() for _ in range(count)]
    for connection in connections:
        registry.add(connection)
    visited: list[object] = []
    visiting = asyncio.ensure_future(registry.visit(visited.append))
    await asyncio.sleep(0)
    assert len(visited) == VISITS_PER_TURN_MAX
    gone = next(each for each in connections if each not in visited)
    registry.remove(gone)
    await visiting
    assert {*visited} == {*connections} - {gone}


async def test_beyond_the_limit_clients_are_closed_at_once_with_one_log_line() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    registry = ConnectionRegistry(1)
    listener = listener_of(registry)
    listener.bind((LOCAL,))
    (endpoint,) = listener.endpoints
    await listener.open()
    _, first = await first_bytes(endpoint)
    for _ in range(3):
        data, writer = await first_bytes(endpoint)
        assert data == b"", "refused: closed without a word"
        writer.close()
    first.close()
    await asyncio.wait_for(registry.wait_empty(), WITHIN_S)
    data, writer = await first_bytes(endpoint)
    assert data == b"hello", "there is room again"
    writer.close()
    listener.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert "[warning] connection refused peer=127.0.0.1:" in lines[0]
    assert "limit=1" in lines[0]


async def test_a_burst_within_one_turn_does_not_pass_the_limit() -> None:
    """Connections register a turn after they were accepted; they must count before that."""
    registry = ConnectionRegistry(3)
    listener = listener_of(registry)
    listener.bind((LOCAL,))
    (endpoint,) = listener.endpoints
    await listener.open()
    clients = [socket.create_connection((endpoint.host, endpoint.port)) for _ in range(10)]
    async with asyncio.timeout(WITHIN_S):
        while len(registry) < 3:  # noqa: ASYNC110 - the registry has no such event
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert len(registry) == 3
    for client in clients:
        client.close()
    await asyncio.wait_for(registry.wait_empty(), WITHIN_S)
    listener.close()


def test_a_port_in_use_is_named_with_what_to_do() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotListenError) as caught:
            bind(Endpoint("127.0.0.1", port), "AMQP", "--port")
    assert str(caught.value) == (
        f"cannot listen for AMQP on 127.0.0.1:{port}: address already in use; "
        "stop the program that uses it, or choose another with --port"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_named(host: str) -> None:
    with pytest.raises(CannotListenError, match=f"on {host}:5672: .*this machine has no such"):
        bind(Endpoint(host, 5672), "AMQP", "--bind")


async def test_no_host_means_every_address_of_both_families() -> None:
    with bind(Endpoint(None, 0), "AMQP", "--port") as bound:
        bound.listen()
        port = bound.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
        if bound.family == socket.AF_INET6:
            socket.create_connection(("::1", port)).close()


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = before
    lowered = min(256, hard if hard > 0 else 256)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowered, hard))
    try:
        taken = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == taken
        assert taken >= soft or taken == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("descriptors", "configured", "limit"),
    [(1024, 0, 896), (1024, 10, 10), (1024, 5000, 896), (64, 0, 1)],
)
def test_clients_leave_descriptors_for_files(descriptors: int, configured: int, limit: int) -> None:
    assert connection_limit(descriptors, configured) == limit


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("1127.0.0.1", False),
    ],
)
def test_loopback_addresses_are_known_in_every_spelling(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_peers_are_written_as_addresses() -> None:
    assert format_peer(("127.0.0.1", 5)) == "127.0.0.1:5"
    assert format_peer(("::1", 5, 0, 0)) == "[::1]:5"
    assert format_peer(None) == "unknown"
