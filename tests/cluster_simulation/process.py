"""One process of a simulated node, from its start to its end: the real machine and its shell.

Real are the machine and the shell around it, the broker's topology and policies, queues and their
moves, links with their handshake and pulse, the keeper of the session, and what is withheld while
the node may not act. Played are what they stand on: store, sockets, disk and clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from cluster_simulation.clients import Client
from cluster_simulation.disk import SavedDisk, SimStorage
from cluster_simulation.loop import NodeLoop, SimClock
from cluster_simulation.store_client import StoreClient
from gm_invariants import Violation
from warren.auth.access import AccessControl
from warren.broker import broker as broker_module
from warren.broker.broker import Broker
from warren.broker.queue_host import QueueFactory
from warren.cluster import queue_moves
from warren.cluster.events import (
    DrainWanted,
    Event,
    FramesArrived,
    LinkDown,
    LinkGivenUp,
    LinkUp,
    MasterMissing,
    NewsArrived,
    ProcessGone,
    QueuesLoaded,
    SessionBegun,
    SessionPending,
    StopWanted,
    StoreChanged,
)
from warren.cluster.link.control import Control, Counted, MirrorNews, OpenQueue
from warren.cluster.link.handshake import Identity
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.node import ClusterNode
from warren.cluster.node_states import NodeState
from warren.cluster.placement import LocatorDefaults
from warren.cluster.sessions import SESSION_TTL_S, Session, encode_session
from warren.config.values import Endpoint
from warren.flow.alarms import AlarmBoard
from warren.flow.brake import Brake
from warren.flow.tenure import Tenure
from warren.metadata.keys import KeyKind, node_key, node_state_key, prefix
from warren.metadata.store import Change, Check, Delete, Lease, MetadataError, Put
from warren.model.errors import AmqpError
from warren.model.limits import MIRROR_TIMEOUT_MS
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.delivery import Deliveries
from warren.replication.classic.origins import make_origin
from warren.server import session_keeper
from warren.server.cluster_placement import ClusterPlacement
from warren.server.cluster_shell import ClusterShell
from warren.server.flush_scheduler import FlushScheduler
from warren.server.links import Links
from warren.server.node_states import NodeStates, Own
from warren.server.session_keeper import SessionKeeper
from warren.wire.codec import FrameReader

if TYPE_CHECKING:
    from cluster_simulation.node import SimNode

VHOST: Final = "/"
FRAME_MAX: Final = 1 << 20
NAME_RETRY_S: Final = 0.5
START_RETRY_S: Final = 0.2
OPEN_AGAIN_S: Final = 0.01
LEAVE_S_MAX: Final = 15.0
DISK_US: Final = 8_000
"""The longest that a disk takes for what it does at once."""
CONFIG: Final = {
    "max_message_size": 1 << 20,
    "sync_max_throughput": "0",
    "sync_batch_size": 3,
    "sync_is_blocking": False,
    "mirror_timeout_ms": MIRROR_TIMEOUT_MS,
}

# The keeper of sessions reads a clock that no test owns: in a process of a world it is the world's.
session_keeper.boottime_s = lambda: asyncio.get_running_loop().time()  # type: ignore[attr-defined]


class WatchedShell(ClusterShell):
    """The shell, with tokens that a seed decides about, and a look after every event."""

    def __init__(self, process: Process) -> None:
        context: Any = process
        super().__init__(context, context.store, process)
        self._process = process
        self.choose = process.dice.sample

    def tell(self, event: Event) -> None:
        was_handling = self._is_handling
        super().tell(event)
        if not was_handling:
            self._process.require_nothing_overlooked(event)
            self._process.world.witness.saw_event(self._process)

    def new_token(self) -> str:
        return self._process.new_token()

    def new_origin(self) -> str:
        return make_origin(self._process.name, self._process.new_token())

    def deliveries(self) -> Iterable[Deliveries]:
        return (*self._process.client.all_deliveries(), *self._links.deliveries())


class Process:
    """What the shell, links and the keeper of the session have around them (`context`), too."""

    def __init__(self, node: SimNode, saved: SavedDisk) -> None:
        world = node.world
        self.node = node
        self.name = node.name
        self.world = world
        self.dice = world.schedule.random
        self.loop = NodeLoop(world.schedule)
        self.loop.connect = lambda name, protocol: world.network.connect(self, name, protocol)
        self.config = SimpleNamespace(name=self.name, **CONFIG)
        self.clock = SimClock(self.loop)
        self.store = StoreClient(world.store, self.loop, lambda: node.is_cut_from_store)
        self.tenure = Tenure(self.loop.time)
        self.flush_scheduler = FlushScheduler(self.loop, self.tenure)
        self.brake = Brake(AlarmBoard(self.clock), self.clock)
        self.storage = SimStorage(
            saved, self._work_on_disk_soon, lambda: world.witness.has_begun_again
        )
        self.queue_factory = QueueFactory(self.clock, self.loop.create_task)
        self.turn_clock = self.queue_factory.turn_clock
        self.reply_desk = AbstractQueue()
        self.connections = ()
        self.is_stopping = False
        self.has_session = False
        self.client = Client(self)
        self._is_disk_due = False
        self.loop.run(self._make)

    def _make(self) -> None:
        context: Any = self
        store: Any = self.store
        storages: Any = {VHOST: self.storage}
        placement = ClusterPlacement(self.queue_factory, LocatorDefaults())
        self.broker = Broker(store, AccessControl(), placement, self.new_token, self.clock)
        self.queue_factory.vhosts = self.broker.vhosts
        self.queue_factory.storages = storages
        self.shell = WatchedShell(self)
        placement.use(self.shell, context)
        me = Identity("simulated", self.name, self.new_token(), "1", b"key")
        self.links = Links(context, me, self)
        self.shell.use_links(self.links)
        self.keeper = SessionKeeper(context, self._put_session)
        own = Own(self.name, self._own_state, lambda: self.broker.lease)
        self.states = NodeStates(own, store, self.brake.board)
        self._placement = placement

    @property
    def machine(self) -> ClusterNode:
        return self.shell.node

    @property
    def incarnation(self) -> str:
        return self.machine.view.incarnation

    def new_token(self) -> str:
        return f"{self.name}{self.world.next_number()}"

    def spawn(self, work: Coroutine[Any, Any, Any]) -> object:
        return self.loop.create_task(work)

    def require_nothing_overlooked(self, event: Event) -> None:
        """The machine has to find by itself whatever there is to do."""
        if self.has_session:
            overlooked = self.machine.overlooked()
            if overlooked:
                raise Violation(f"{self.name} overlooks {overlooked} after {event}")

    # Life.

    def start(self) -> None:
        self.loop.run(lambda: self.spawn(self._start()))

    async def _start(self) -> None:
        await self._until_done(self._load)
        self.world.network.hosts[self.name] = self
        await self._until_done(self.keeper.join)
        self.keeper.start()
        self.states.start()
        self.client.begin()

    async def _until_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Try again and again, until the store can be reached."""
        while True:
            try:
                return await work()
            except MetadataError:
                await asyncio.sleep(START_RETRY_S)

    async def _load(self) -> None:
        if self.node.last_lease:
            await self.store.revoke(Lease(self.node.last_lease, SESSION_TTL_S))
        await self.store.open()
        self.broker._lease = await self.store.grant_lease(SESSION_TTL_S)
        self.store.watch(self.states.follow)
        self.states.follow(await self._stored(KeyKind.NODE_STATE))
        self.store.watch(self.shell.store_changed)
        for kind in (KeyKind.NODE_STATE, KeyKind.CHOSEN_NODES, KeyKind.GROUP, KeyKind.NODE):
            self.shell.tell(StoreChanged(await self._stored(kind)))
        self._placement.watch(self.broker.store, self.broker.apply)
        for kind in broker_module._LOADED:
            self.broker.apply(await self._stored(kind))
        self.shell.tell(QueuesLoaded())
        self.storage.forget_unclaimed()

    async def _stored(self, kind: KeyKind) -> list[Change]:
        return [Change(record.key, record) for record in await self.store.range(prefix(kind))]

    async def _put_session(self, lease: Lease) -> None:
        self.has_session = False
        incarnation = self.new_token()
        self.shell.tell(SessionPending(incarnation))
        self.node.last_lease = lease.id
        session = Session(self.name, incarnation, lease.id, self.name, 1, 1, "", "")
        key = node_key(self.name)
        put = Put(key, encode_session(session), lease)
        while await self.store.commit([Check(key, 0)], [put]) is None:  # noqa: ASYNC110
            await asyncio.sleep(NAME_RETRY_S)
        self.states.tell()
        self.shell.tell(SessionBegun())
        self.has_session = True

    def extend_tenure(self, until_s: float) -> None:
        self.tenure.extend(until_s)

    def stop(self) -> None:
        """Stop in good order, as SIGTERM has it."""
        if not self.is_stopping:
            self.is_stopping = True
            self.loop.run(lambda: self.spawn(self._leave()))

    async def _leave(self) -> None:
        if not self.tenure.is_frozen:
            self.states.tell()
            await self.shell.leave(StopWanted(), LEAVE_S_MAX)
        await self.keeper.stop()
        self.states.stop()
        if not self.tenure.is_frozen:
            # Whoever sees the session gone may lead: nothing leaves this node any more.
            self.flush_scheduler.flush()
            self.tenure.freeze()
            keys = node_key(self.name), node_state_key(self.name)
            with suppress(MetadataError):
                await self.store.commit([], [Delete(key) for key in keys])
        self.client.end()
        self.links.stop_serving()
        self.node.ended(is_orderly=True)

    def drain(self, is_drained: bool) -> None:
        """Take the node out of service or back, and let others know."""
        if self.has_session:
            self.shell.tell(DrainWanted(is_drained))
            self.states.tell()

    def _own_state(self) -> NodeState:
        alarms = self.brake.board.alarms
        return NodeState(
            {alarm.resource.value: alarm.since_s for alarm in alarms if alarm.node == self.name},
            self.name in self.machine.view.drained,
            unreachable=tuple(sorted(self.machine.reachability.unreachable)),
            is_stopping=self.machine.leaving.is_stopping,
        )

    def die(self) -> None:
        self.loop.die()
        self.store.close()
        self.world.network.hosts.pop(self.name, None)
        self.world.network.died(self)

    def declare(self, record: QueueRecord) -> None:
        self.loop.run(lambda: self.spawn(self._declare(record)))

    async def _declare(self, record: QueueRecord) -> None:
        vhost = self.broker.vhosts.get(VHOST)
        if vhost is not None and self.tenure.holds():
            with suppress(MetadataError, AmqpError):
                await vhost.declare_named_queue(record)

    # What the shell asks of whoever keeps the session.

    def own_session_lost(self) -> None:
        self.keeper.session_gone()

    def publish_state(self) -> None:
        self.states.tell()

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool:
        """No queue is deleted here."""
        return True

    def node_connected(self, session: Session) -> None:
        self.links.add(session.node, Endpoint(session.cluster_host, session.cluster_port))
        self.shell.moves.node_connected(session.node)

    def node_disconnected(self, session: Session) -> None:
        self.links.remove(session.node)

    # What links tell.

    def accept(self) -> asyncio.Protocol:
        return self.links._accept()

    def watch_served(self) -> Callable[[bytes], None]:
        reader = FrameReader(FRAME_MAX, FRAME_MAX)
        reader.is_client = True
        return lambda data: self.world.witness.served(self, reader, reader.feed(data))

    def applied(self, node: str, revision: int) -> None:
        """Nobody waits for that here."""

    def counted(self, node: str, news: Counted) -> None:
        """Nobody counts connections here."""

    def greetings(self) -> Sequence[Control]:
        return ()

    def process_gone(self, node: str) -> None:
        self.shell.tell(ProcessGone(node))

    def refused_for_good(self, node: str, reason: str) -> None:
        raise Violation(f"{self.name} is refused by {node}: {reason}")

    def given_up(self, node: str) -> None:
        self.shell.tell(LinkGivenUp(node))

    def link_up(self, node: str) -> None:
        self.shell.tell(LinkUp(node))

    def link_down(self, node: str, silent_ms: int) -> None:
        self.shell.tell(LinkDown(node, silent_ms))

    def mirror_frames(self, body: bytes) -> None:
        self.shell.tell(FramesArrived(body))

    def mirror_news(self, news: MirrorNews) -> None:
        self.shell.tell(NewsArrived(news))

    def resumed(self, queue: RemoteQueue) -> None:
        self.spawn(queue.resume_consumers())

    def master_missing(self, queue: RemoteQueue, node: str) -> None:
        self.shell.tell(MasterMissing((queue.record.vhost, queue.record.name), node))

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        return queue_moves.make_inbox(queue, control)

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        if (control.vhost, control.queue) not in self.machine.replicas:
            return False
        self.loop.call_later(OPEN_AGAIN_S, again, control)
        return True

    # The disk.

    def _work_on_disk_soon(self) -> None:
        if not self._is_disk_due:
            self._is_disk_due = True
            delay_s = self.dice.randint(100, DISK_US) / 1_000_000
            self.loop.call_later(delay_s, self._work_on_disk)

    def _work_on_disk(self) -> None:
        self._is_disk_due = False
        if self.node.is_disk_full:
            self.storage.refuse()
            self._work_on_disk_soon()
        elif self.storage.work(self.dice):
            self._work_on_disk_soon()
