"""The shell around a cluster's machine: tells it events, and carries out its actions.

Events are handled one after the other; what an action brings about at once (a queue that turns out
to be missing) is the next event, not one inside another. Whoever waits for a condition on the view
of the cluster (`until`) is woken when the view has changed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from warren.cluster.actions import (
    Action,
    AwaitMaster,
    Commit,
    ConnectNode,
    DisconnectNode,
    Left,
    LoseMaster,
    OwnSessionLost,
    PrepareCopy,
    PublishState,
    Redirect,
    RemoveQueues,
    RenewQueue,
    RevokeSession,
    SendFrame,
    SetTimer,
    TellNode,
)
from warren.cluster.copy_files import CopyFiles
from warren.cluster.effects import Effects
from warren.cluster.events import (
    CommitAnswered,
    CopyPrepared,
    DrainWanted,
    Event,
    MemoryRecovered,
    QueueRenewed,
    StopWanted,
    StoreChanged,
    TimerFired,
    TurnEnded,
)
from warren.cluster.group_events import GroupEvents
from warren.cluster.node import ClusterNode
from warren.cluster.node_replica import ReplicaParts
from warren.cluster.queue_moves import QueueMoves
from warren.cluster.sessions import SESSION_TTL_S, Session, decode_session
from warren.cluster.synchronisation import SyncOfNode, SyncTerms
from warren.cluster.topology import BrokerTopology
from warren.cluster.view import ClusterView
from warren.config.settings import Config
from warren.flow.alarms import AlarmChange, Resource
from warren.flow.units import parse_size
from warren.metadata.keys import node_key
from warren.metadata.store import Change, Check, Lease, MetadataError, WatchCallback
from warren.model.errors import AmqpError
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.policy.wanted_copies import Choose
from warren.queues.delivery import Deliveries
from warren.queues.queue import Queue
from warren.replication.classic.origins import make_origin
from warren.replication.group_record import SessionGone
from warren.server.cluster_store import ClusterStore
from warren.server.connection import AmqpConnection
from warren.server.context import ConnectionContext, new_token
from warren.server.links import Links
from warren.server.mirror_frames import MirrorFrames

_log = EventLog("cluster")


class SessionOwner(Protocol):
    """Who keeps this node's session, and connects to others: `Cluster`."""

    def own_session_lost(self) -> None: ...

    def node_connected(self, session: Session) -> None: ...

    def node_disconnected(self, session: Session) -> None: ...

    def publish_state(self) -> None: ...

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool: ...


class ClusterShell:
    def __init__(
        self, context: ConnectionContext, store: ClusterStore, owner: SessionOwner
    ) -> None:
        self._context = context
        self._store = store
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._is_handling = False
        self._has_changed = asyncio.Event()
        self._left: list[asyncio.Future[None]] = []
        self._apply_topology: WatchCallback | None = None
        self.choose: Choose = random.sample
        self._frames = MirrorFrames(self._send_frames)
        self._performers: dict[type[Action], Callable[[Any], object]] = {
            SendFrame: lambda action: self._frames.add(action.node, action.buffers),
            TellNode: self._tell_node,
            SetTimer: self._set_timer,
            Commit: lambda action: context.spawn(self._commit(action)),
            RevokeSession: lambda action: context.spawn(self._revoke(action.session)),
            ConnectNode: lambda action: owner.node_connected(action.session),
            DisconnectNode: lambda action: owner.node_disconnected(action.session),
            OwnSessionLost: lambda action: owner.own_session_lost(),
            PublishState: lambda action: owner.publish_state(),
            PrepareCopy: lambda action: context.spawn(self._prepare(action)),
            RenewQueue: lambda action: context.spawn(self._renew(action.name)),
            RemoveQueues: lambda action: context.spawn(self._remove(action.names)),
            Redirect: lambda a: self.moves.redirect(a.name, a.node, a.is_mirrored),
            AwaitMaster: lambda action: self.moves.await_master(action.name),
            LoseMaster: lambda action: self.moves.lose_master(action.name, action.homes),
            Left: lambda action: self._have_left(),
        }
        self._make_machine()
        context.brake.board.listeners.append(self._alarm_changed)

    def _make_machine(self) -> None:
        context, factory = self._context, self._context.queue_factory
        view = ClusterView(context.config.name, BrokerTopology(factory))
        effects = Effects(self)
        files = CopyFiles(factory)
        self.moves = QueueMoves(factory, files, context.brake, self, self._loop.create_future)
        events = GroupEvents(context.broker.events)
        sync = SyncOfNode(sync_terms(context.config), self, effects, events)
        self.node = ClusterNode(ReplicaParts(view, effects, files, self.moves, sync), self)

    @property
    def view(self) -> ClusterView:
        return self.node.view

    def use_links(self, links: Links) -> None:
        self._links = links
        self.moves.use_links(links)

    # Events.

    def tell(self, event: Event) -> None:
        """Have the machine handle an event, after those that it was told before."""
        self._events.append(event)
        if self._is_handling:
            return
        self._is_handling = True
        try:
            while self._events:
                self._perform(self.node.handle(self._events.popleft()))
        finally:
            self._is_handling = False

    def _perform(self, actions: list[Action]) -> None:
        """Carry out actions in their order, frames that follow each other together."""
        for action in actions:
            if not isinstance(action, SendFrame):
                self._frames.flush()
            self._performers[type(action)](action)
        self._frames.flush()

    def store_changed(self, changes: Sequence[Change]) -> None:
        """Apply a change of the store: the topology first, so that decisions are made from it."""
        if self._apply_topology is not None:
            self._apply_topology(changes)
        self.tell(StoreChanged(changes))
        self._has_changed.set()
        self._has_changed = asyncio.Event()

    def apply_first(self, apply: WatchCallback | None) -> None:
        """Set what applies the topology, before the machine hears of a change."""
        self._apply_topology = apply

    def wake(self) -> None:
        self._loop.call_soon(self.tell, TurnEnded())

    async def until(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for something that the store tells; False if it did not come in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not is_so():
                    await self._has_changed.wait()
        return is_so()

    async def leave(self, event: DrainWanted | StopWanted, timeout_s: float) -> None:
        """Tell of a wish to leave, and wait until all queues that could be are handed over."""
        left: asyncio.Future[None] = self._loop.create_future()
        self._left.append(left)
        self.tell(event)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await left

    def _have_left(self) -> None:
        waiting, self._left = self._left, []
        for left in waiting:
            if not left.done():
                left.set_result(None)

    def _alarm_changed(self, change: AlarmChange) -> None:
        if change.alarm.resource is Resource.MEMORY and not self.is_memory_short:
            self.tell(MemoryRecovered())

    # What the machine asks and is answered at once.

    @property
    def is_memory_short(self) -> bool:
        return Resource.MEMORY in self._context.brake.board.resources

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool:
        """True if no disk of these nodes has anything of an earlier queue under this key."""
        return self._owner.are_clean(key, nodes)

    def now_ms(self) -> int:
        return self._context.clock.now_ms()

    def new_token(self) -> str:
        return new_token()

    def new_origin(self) -> str:
        return make_origin(self._context.config.name, new_token())

    def deliveries(self) -> Iterable[Deliveries]:
        connections = [c for c in self._context.connections if isinstance(c, AmqpConnection)]
        here = [channel.deliveries for c in connections for channel in c.channels]
        return (*here, *self._links.deliveries())

    def next_sequence(self, name: QueueName) -> int:
        queue = self._context.queue_factory.vhosts[name[0]].queues[name[1]]
        return queue.backing.used_below() if isinstance(queue, Queue) else 0

    def is_disk_doubtful(self, vhost: str) -> bool:
        factory = self._context.queue_factory
        streams = factory.streams.get(vhost)
        is_any_stream = streams is not None and streams.is_doubtful
        return is_any_stream or factory.storages[vhost].index.is_doubtful

    # Actions.

    def _send_frames(self, node: str, body: bytes) -> None:
        asker = self._links.client_of(node)
        if asker is not None:
            asker.mirror_frames(body)

    def _tell_node(self, action: TellNode) -> None:
        asker = self._links.client_of(action.node)
        if asker is not None:
            asker.tell(action.news)

    def _set_timer(self, action: SetTimer) -> None:
        if action.delay_ms:
            self._loop.call_later(action.delay_ms / 1000, self.tell, TimerFired(action.token))
        else:
            self._loop.call_soon(self.tell, TimerFired(action.token))

    async def _commit(self, action: Commit) -> None:
        is_stored = False
        with suppress(MetadataError):
            checks = await self._checks_of(action.gone)
            if checks is not None:
                wanted = (*action.checks, *checks)
                is_stored = await self._store.commit(wanted, action.operations) is not None
        self.tell(CommitAnswered(action.token, is_stored))

    async def _checks_of(self, gone: Sequence[SessionGone]) -> list[Check] | None:
        """Return what must hold for these sessions to be gone; None if one is not."""
        checks = []
        for each in gone:
            record = await self._store.get(node_key(each.node))
            session = None if record is None else decode_session(record.value)
            if session is not None and session.incarnation == each.incarnation:
                return None
            checks.append(Check(node_key(each.node), 0 if record is None else record.version))
        return checks

    async def _revoke(self, session: Session) -> None:
        """Waiting for a dead node's session to end would only keep clients waiting.

        The lease is that of the life whose link broke; a later life has another.
        """
        _log.warning("node has closed its port: its session is ended", node=session.node)
        with suppress(MetadataError):
            await self._store.revoke(Lease(session.lease, SESSION_TTL_S))

    async def _prepare(self, action: PrepareCopy) -> None:
        storage = self._context.queue_factory.storages.get(action.name[0])
        if storage is not None:
            await storage.index.flush()
        self.tell(CopyPrepared(action.name, action.uid))

    async def _renew(self, name: QueueName) -> None:
        is_renewed = False
        vhost = self._context.queue_factory.vhosts.get(name[0])
        if vhost is not None and name[1] in vhost.queues:
            with suppress(MetadataError):
                is_renewed = await vhost.renew_queue(name[1])
        self.tell(QueueRenewed(name, is_renewed))

    async def _remove(self, names: frozenset[QueueName]) -> None:
        for vhost in tuple(self._context.queue_factory.vhosts.values()):
            with suppress(MetadataError, AmqpError):
                await vhost.drop_lost(lambda record: (record.vhost, record.name) in names)


def sync_terms(config: Config) -> SyncTerms:
    try:
        bytes_per_s = parse_size(config.sync_max_throughput)
    except ValueError as error:
        # No limit, as RabbitMQ has it.
        _log.warning("mirroring_sync_max_throughput is ignored", reason=error)
        bytes_per_s = 0
    return SyncTerms(
        config.sync_batch_size, bytes_per_s, config.sync_is_blocking, config.mirror_timeout_ms
    )
