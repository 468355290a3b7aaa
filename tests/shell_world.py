"""A cluster node without sockets for tests: real broker, queues, disk, machine and shell.

The store is SQLite's, on a real disk, in the place of etcd; other nodes exist as sessions that a
test puts, and links to them are `LinkClient`s that a test connects to whatever it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from machine_world import ALL, NAME, session_of
from warren.auth.access import AccessControl
from warren.broker.broker import Broker
from warren.broker.queue_host import QueueFactory
from warren.broker.vhost import VirtualHost
from warren.cluster.actions import Action
from warren.cluster.events import (
    LinkUp,
    MasterMissing,
    NewsArrived,
    QueuesLoaded,
    SessionBegun,
    SessionPending,
    StoreChanged,
)
from warren.cluster.link.client import LinkClient
from warren.cluster.link.control import BecomeMirror
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.node_replica import NodeReplica
from warren.cluster.placement import LocatorDefaults
from warren.cluster.sessions import Session, encode_session
from warren.config.settings import Config
from warren.metadata.codec import encode_record as encode_queue
from warren.metadata.keys import KeyKind, group_key, node_key, prefix, queue_key
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import Change, Check, Delete, Lease, Operation, Put
from warren.model.records import Policy, QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.replication.group_record import (
    GroupRecord,
    Member,
    add_right_of,
    admit_to_insync,
    encode_record,
)
from warren.server.clock import LoopClock
from warren.server.cluster_placement import ClusterPlacement
from warren.server.cluster_shell import ClusterShell
from warren.server.context import ConnectionContext, new_token
from warren.server.listener import ConnectionRegistry
from warren.server.message_storage import MessageStorage

WAIT_S_MAX = 60.0


class SqliteOfCluster(SqliteStore):
    """SQLite in the place of etcd; `is_refusing` has every change of a machine refused."""

    is_refusing = False
    revoked: list[Lease]

    async def commit(self, checks: Sequence[Check], changes: Sequence[Operation]) -> int | None:
        if self.is_refusing:
            return None
        return 1 if await self.transact(checks, changes) else None

    async def revoke(self, lease: Lease) -> None:
        self.revoked = [*getattr(self, "revoked", []), lease]


class TestLinks:
    """Links that tests connect: an asker for each node that has a session."""

    __test__ = False

    def __init__(self) -> None:
        self.askers: dict[str, LinkClient] = {}
        self.moved: list[Queue] = []
        self.served: list[Deliveries] = []

    def client_of(self, node: str) -> LinkClient | None:
        return self.askers.get(node)

    def queue_moved(self, queue: Queue) -> None:
        self.moved.append(queue)

    def deliveries(self) -> list[Deliveries]:
        return self.served


class ShellWorld:
    """`async with ShellWorld(directory) as world`; the node is called `a`."""

    def __init__(self, directory: Path) -> None:
        self.config = Config(name="a", data_dir=directory)
        clock = LoopClock()
        self.store = SqliteOfCluster(directory / "metadata.db")
        self.factory = QueueFactory(clock, asyncio.ensure_future)
        self.placement = ClusterPlacement(self.factory, LocatorDefaults())
        self.broker = Broker(self.store, AccessControl(), self.placement, new_token, clock)
        self.factory.vhosts = self.broker.vhosts
        self.messages = MessageStorage(directory)
        self.factory.storages = self.messages.vhosts
        self.factory.streams = self.messages.streams
        registry = ConnectionRegistry(10)
        self.context = ConnectionContext(self.config, self.broker, self.factory, registry, clock)
        store: Any = self.store
        self.shell = ClusterShell(self.context, store, self)
        self.placement.use(self.shell, self.context)
        self.links: Any = TestLinks()
        self.shell.use_links(self.links)
        self.events: list[str] = []
        """What whoever keeps the session was told."""
        self.next_askers: dict[str, LinkClient] = {}
        """The asker that the link of a node has; a test may connect it to another broker."""

    async def __aenter__(self) -> ShellWorld:
        await self.store.open()
        self._cancel_watch = self.store.watch(self.shell.store_changed)
        groups = await self.store.range(prefix(KeyKind.GROUP))
        self.shell.tell(StoreChanged([Change(record.key, record) for record in groups]))
        await self.messages.open("/")
        await self.broker.start()
        self.shell.tell(SessionPending("1"))
        self.shell.tell(QueuesLoaded())
        await self.put_session("a")
        self.shell.tell(SessionBegun())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()
        await self.messages.close()
        self._cancel_watch()
        await self.store.close()
        self.context.timers.close()

    # What the shell tells whoever keeps the session.

    def own_session_lost(self) -> None:
        self.events.append("own session lost")

    def node_connected(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        asker = self.next_askers.pop(session.node, None)
        asker = asker or LinkClient(session.node, loop.create_future)
        asker.listener = self
        self.links.askers[session.node] = asker
        self.shell.moves.node_connected(session.node)

    def node_disconnected(self, session: Session) -> None:
        self.links.askers.pop(session.node).lost()

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool:
        """So queues begin alone, and have their mirrors invited."""
        return False

    def publish_state(self) -> None:
        self.events.append("state published")

    # What links tell.

    def applied(self, node: str, revision: int) -> None: ...

    def resumed(self, queue: RemoteQueue) -> None:
        self.context.spawn(queue.resume_consumers())

    def master_missing(self, queue: RemoteQueue, node: str) -> None:
        self.shell.tell(MasterMissing((queue.record.vhost, queue.record.name), node))

    # What a test does.

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    async def put_session(self, node: str, life: str = "1") -> None:
        await self.store.transact([], [Put(node_key(node), encode_session(session_of(node, life)))])

    async def end_session(self, node: str) -> None:
        await self.store.transact([], [Delete(node_key(node))])

    async def add_node(self, node: str) -> LinkClient:
        await self.put_session(node)
        self.shell.tell(LinkUp(node))
        return self.links.askers[node]

    async def put_group(self, group: GroupRecord) -> None:
        await self.store.transact([], [Put(group_key(*NAME), encode_record(group))])

    async def mirror_all(self, **other: object) -> None:
        await self.broker.policies.set(Policy("/", "p", ".*", {**ALL, **other}))

    async def declare(self, node: str = "a", **other: Any) -> AbstractQueue:
        """Store a queue of a node, as that node would."""
        record = QueueRecord(*NAME, node=node, **other)
        await self.store.transact([], [Put(queue_key(*NAME), encode_queue(record))])
        return self.vhost.queues["q"]

    async def lead(self, **other: Any) -> NodeReplica:
        """Declare a mirrored queue here; return its replica, which leads."""
        await self.mirror_all()
        await self.declare(**other)
        await self.until(self.shell.node.led)
        return self.shell.node.replicas[NAME]

    async def follow(self, leader: Member, **other: Any) -> NodeReplica:
        """Be a mirror, in sync, of a queue that a node leads, which has taken this one in."""
        await self.mirror_all()
        await self.declare(leader.node, **other)
        alone = GroupRecord("uid", 1, 1, leader.id, (leader,), (leader.id,), (leader.node,))
        await self.put_group(alone)
        self.shell.tell(NewsArrived(BecomeMirror(*NAME, "uid")))
        await self.until(lambda: self.shell.node.replicas)
        host = self.shell.node.replicas[NAME]
        joined = add_right_of(alone, leader.id, host.replica.me)
        await self.put_group(joined)
        await self.put_group(admit_to_insync(joined, leader.id, host.replica.me.id))
        return host

    @property
    def remote(self) -> RemoteQueue:
        queue = self.vhost.queues["q"]
        assert isinstance(queue, RemoteQueue)
        return queue

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S_MAX):
            while not is_so():  # noqa: ASYNC110 - what it looks at tells nobody
                await asyncio.sleep(0.002)

    def perform(self, action: Action) -> Awaitable[None] | None:
        """Have the shell carry out one action."""
        result = self.shell._performers[type(action)](action)
        self.shell._frames.flush()
        return result if isinstance(result, Awaitable) else None
