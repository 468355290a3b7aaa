"""A node in this process: what it opens, whom it tells, what it leaves behind."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.metadata.store import Change, MetadataUnusable, Put
from warren.model.logs import configure_logs
from warren.server.context import ConnectionContext
from warren.server.data_directory import DataDirectoryError
from warren.server.listener import ConnectionRegistry
from warren.server.node import Node
from warren.server.sockets import CannotListenError

WITHIN_S = 60.0


class Peer(asyncio.Protocol):
    """Stands in for an AMQP connection, to see what a node asks of one."""

    def __init__(self, connections: ConnectionRegistry, is_stubborn: bool = False) -> None:
        self._connections = connections
        self._is_stubborn = is_stubborn
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._connections.remove(self)

    def shut_down(self, reason: str) -> None:
        assert self._transport is not None
        self._transport.write(f"close: {reason}".encode())
        if not self._is_stubborn:
            self._transport.close()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def close_overdue_channels(self) -> None:
        assert self._transport is not None
        self._transport.write(b"tick.")


def config_for(directory: Path, **changes: object) -> Config:
    values: dict[str, object] = {
        "name": "warren@test",
        "data_dir": directory / "data",
        "tcp_listeners": (Endpoint("127.0.0.1", 0),),
        "http_port": 0,
    }
    return Config(**(values | changes))  # type: ignore[arg-type]


def make_peer(context: ConnectionContext) -> Peer:
    return Peer(context.connections)


def make_stubborn_peer(context: ConnectionContext) -> Peer:
    return Peer(context.connections, is_stubborn=True)


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    return stream


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(config_for(tmp_path), make_peer)
    await node.start()
    yield node
    await node.stop()


async def connect(node: Node) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    (endpoint,) = node.amqp_endpoints
    return await asyncio.open_connection(endpoint.host, endpoint.port)


async def accepted(node: Node, count: int = 1) -> None:
    async with asyncio.timeout(WITHIN_S):
        while len(node.connections) < count:  # noqa: ASYNC110 - the registry has no such event
            await asyncio.sleep(0.01)


async def test_port_0_takes_free_ports_and_tells_them(node: Node) -> None:
    (endpoint,) = node.amqp_endpoints
    assert endpoint.port > 0
    assert node.http_endpoint.port > 0
    assert node.is_ready


async def test_the_first_start_makes_guest_and_the_default_vhost(node: Node) -> None:
    assert list(node.broker.vhosts) == ["/"]
    user = node.broker.access.authenticate("guest", b"guest", peer_is_loopback=True)
    assert "administrator" in user.tags


async def test_the_first_user_and_vhost_can_be_configured(tmp_path: Path) -> None:
    config = config_for(tmp_path, default_user="root", default_pass="secret", default_vhost="main")
    node = Node(config, make_peer)
    await node.start()
    assert list(node.broker.vhosts) == ["main"]
    user = node.broker.access.authenticate("root", b"secret", peer_is_loopback=False)
    node.broker.access.require_vhost(user, "main")
    await node.stop()


async def test_clients_are_told_of_the_shutdown(node: Node) -> None:
    reader, writer = await connect(node)
    await accepted(node)
    await node.stop()
    told = await asyncio.wait_for(reader.read(), WITHIN_S)
    assert told == b"close: broker forced connection closure with reason 'shutdown'"
    writer.close()


async def test_a_client_that_does_not_go_is_dropped_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    monkeypatch.setattr("warren.server.node.STOP_CONNECTIONS_S", 0.2)
    node = Node(config_for(tmp_path), make_stubborn_peer)
    await node.start()
    _, writer = await connect(node)
    await accepted(node)
    async with asyncio.timeout(WITHIN_S):
        await node.stop()
    writer.close()
    assert "connections did not close in time connections=1" in log.getvalue()


async def test_a_stopped_node_leaves_its_ports_and_its_directory_to_the_next(
    tmp_path: Path,
) -> None:
    first = Node(config_for(tmp_path), make_peer)
    await first.start()
    ports = {"tcp_listeners": tuple(first.amqp_endpoints), "http_port": first.http_endpoint.port}
    await first.stop()
    second = Node(config_for(tmp_path, **ports), make_peer)
    await second.start()
    assert second.amqp_endpoints == list(ports["tcp_listeners"])
    await second.stop()


async def test_a_port_in_use_is_named_before_anything_is_made(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        endpoint = Endpoint("127.0.0.1", other.getsockname()[1])
        node = Node(config_for(tmp_path, tcp_listeners=(endpoint,)), make_peer)
        with pytest.raises(CannotListenError, match=f"for AMQP on {endpoint}: address already"):
            await node.start()
    assert not (tmp_path / "data").exists()


async def test_a_directory_in_use_is_named_and_the_ports_are_given_back(
    tmp_path: Path, node: Node
) -> None:
    second = Node(config_for(tmp_path), make_peer)
    with pytest.raises(MetadataUnusable, match="is in use by another broker"):
        await second.start()
    assert second.amqp_endpoints == []
    assert node.is_ready


async def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    node = Node(config_for(tmp_path, data_dir=tmp_path / "file" / "data"), make_peer)
    with pytest.raises(DataDirectoryError, match=r"cannot use the data directory .*--data-dir"):
        await node.start()


async def test_channels_are_looked_at_every_tick(tmp_path: Path) -> None:
    config = config_for(tmp_path, channel_tick_interval_ms=100)
    node = Node(config, make_peer)
    await node.start()
    reader, writer = await connect(node)
    assert await asyncio.wait_for(reader.readexactly(10), WITHIN_S) == b"tick.tick."
    await node.stop()
    writer.close()


async def test_one_line_says_that_the_node_is_ready_and_where(
    tmp_path: Path, log: io.StringIO
) -> None:
    node = Node(config_for(tmp_path), make_peer)
    await node.start()
    (line,) = log.getvalue().splitlines()
    assert "[info] node is ready name=warren@test amqp=127.0.0.1:" in line
    assert f"http={node.http_endpoint}" in line
    await node.stop()
    assert log.getvalue().splitlines()[-1].endswith("[info] node has stopped name=warren@test")


async def test_a_metadata_change_that_cannot_be_applied_stops_the_node(
    node: Node, log: io.StringIO
) -> None:
    def fail(changes: Sequence[Change]) -> None:
        raise RuntimeError("a fault in a watcher")

    ended = asyncio.Event()
    node.on_stop_wanted = ended.set
    node.store.watch(fail)
    assert await node.store.transact([], [Put("some/key", b"")]), "the change itself is done"
    assert ended.is_set()
    assert node.failure is not None
    assert "(some/key): RuntimeError: a fault in a watcher" in node.failure
    (said,) = [line for line in log.getvalue().splitlines() if "[error]" in line]
    assert "metadata change could not be applied; stopping change=some/key" in said
    assert "in fail" in log.getvalue(), "with the traceback"


async def test_a_fault_in_what_reads_messages_stops_the_node(node: Node, log: io.StringIO) -> None:
    """A queue whose messages are not told to anybody would stand still, and look healthy."""

    def fail(messages: object) -> None:
        raise RuntimeError("a fault in a queue")

    ended = asyncio.Event()
    node.on_stop_wanted = ended.set
    storage = node.messages.vhosts["/"]
    storage.read(storage.index.queue("q"), (0, 1), 100, fail)
    await asyncio.wait_for(ended.wait(), 30)
    assert node.failure is not None
    assert "work of the storage failed: RuntimeError: a fault in a queue" in node.failure
    assert "in fail" in log.getvalue(), "with the traceback"
