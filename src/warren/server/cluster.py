"""A node's life in a cluster: its session, and the asyncio around the machine that decides.

    session of this node put -> others see it, link to us, and wait for us before they say ok
    session of another put   -> link to it, its queues get an asker
    session of another gone  -> its queues are down, or another copy leads them
    our own session gone     -> a new life: another lease, another session (`session_keeper`)

What follows from any of this for queues is decided by `cluster/node.py`; `cluster_shell` carries it
out. The session goes up last at a start and down first at a stop.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from warren import __version__
from warren.broker.broker import Broker
from warren.cluster.events import (
    DiskRefused,
    DrainWanted,
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
from warren.cluster.leaving import HAND_OVER_MS_MAX
from warren.cluster.lifetimes import is_only_on
from warren.cluster.link.client import reply_desk_of
from warren.cluster.link.control import Control, Counted, MirrorNews, OpenQueue
from warren.cluster.link.handshake import Identity, stretched
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.node_states import Listener, NodeState
from warren.cluster.queue_moves import make_inbox
from warren.cluster.redundancy import Redundancy
from warren.cluster.samples import sample_in, sample_news
from warren.cluster.sessions import (
    SESSION_TTL_S,
    NameTaken,
    Session,
    decode_session,
    encode_session,
)
from warren.cluster.tallies import Scope, Tallies
from warren.config.partition_handling import explain_strategy
from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.metadata.directory_lock import DirectoryLock
from warren.metadata.keys import KeyKind, node_key, node_state_key, prefix
from warren.metadata.store import Change, Check, Delete, Lease, MetadataUnavailable, Put
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.server.cluster_placement import ClusterPlacement
from warren.server.cluster_shell import ClusterShell
from warren.server.cluster_store import ClusterStore
from warren.server.context import ConnectionContext, new_token
from warren.server.forgetting import forget_copies
from warren.server.head_times import HeadTimes
from warren.server.incompatible_nodes import IncompatibleNodes
from warren.server.links import Links
from warren.server.membership import Membership
from warren.server.message_storage import MessageStorage
from warren.server.name_conflict import is_name_in_use
from warren.server.node_states import NodeStates, Own
from warren.server.redundancy_watch import RedundancyWatch
from warren.server.session_keeper import SessionKeeper
from warren.server.topology_reports import TopologyReports
from warren.server.transient_exchanges import remove_leftovers
from warren.server.vhost_storage_first import open_storage_first

LEASE_FILE: Final = "lease"
# Longer than a dead predecessor's session can last, in case it left no sign of its lease.
NAME_WAIT_S_MAX: Final = SESSION_TTL_S + 3.0
NAME_RETRY_S: Final = 0.5
# Connections and channels that come and go within this time are told of together.
TALLY_S: Final = 0.05
OPEN_AGAIN_S: Final = 0.01
"""After this time a queue is looked for again that is about to have its master here."""
LEAVE_S_MAX: Final = HAND_OVER_MS_MAX / 1000 + 5.0
"""The machine ends a hand-over by itself; the rest is for what it then writes down."""

_log = EventLog("cluster")


class NodeOfCluster(Protocol):
    """The node around a cluster's life."""

    def give_up(self, reason: str) -> None:
        """Stop: this node must not go on as it is."""
        ...

    def stop_from_inside(self) -> None: ...

    def listeners(self) -> list[Listener]:
        """Where this node listens."""
        ...


class Cluster:
    def __init__(
        self,
        context: ConnectionContext,
        store: ClusterStore,
        placement: ClusterPlacement,
        node: NodeOfCluster,
    ) -> None:
        config = context.config
        self.name = config.name
        self.keeper = SessionKeeper(context, self._put_session)
        self._context = context
        self._store = store
        self._node = node
        self.lock = DirectoryLock(config.data_dir)
        self._lease_file = config.data_dir / LEASE_FILE
        self._reply_desks: dict[str, RemoteQueue] = {}
        key = stretched(config.cluster_secret)
        me = Identity(store.namespace, self.name, new_token(), __version__, key)
        self.shell = ClusterShell(context, store, self)
        self.node = self.shell.node
        self.view = self.shell.view
        placement.use(self.shell, context)
        self.links = Links(context, me, self)
        self.shell.use_links(self.links)
        self._strangers = IncompatibleNodes(self.name, store.namespace, node.give_up)
        self._reports = TopologyReports(context, self.links, store)
        self.membership = Membership(context, store, self, node.stop_from_inside)
        redundancy = Redundancy(self.view, lambda: self.membership.members)
        self.redundancy = RedundancyWatch(self.view, redundancy, context)
        own = Own(self.name, self._own_state, lambda: self.broker.lease)
        self.states = NodeStates(own, store, context.brake.board)
        self.heads: HeadTimes | None = None
        self.on_sample: Callable[[str, dict[str, int]], None] = lambda _node, _sample: None
        """Called with each sample that another node tells, and with nothing when it is down."""
        self.tallies = Tallies(context.admission.counts)
        context.admission.count_elsewhere(self.tallies.elsewhere, self._count_changed)
        context.reply_registry.join_cluster(self.name, self._reply_desks.get)

    @property
    def store(self) -> ClusterStore:
        return self._store

    @property
    def broker(self) -> Broker:
        return self._context.broker

    @property
    def running_nodes(self) -> list[str]:
        return self.view.running_nodes

    @property
    def nodes_taking_part(self) -> list[str]:
        return self.view.nodes_in_service

    # Life.

    def bind(self) -> None:
        """Raises CannotListenError."""
        self.links.bind(Endpoint(self._context.config.http_ip, self._context.config.cluster_port))

    async def follow(self) -> None:
        """The store is open, the topology not yet built: know the other nodes first."""
        self._store.watch(self.membership.follow)
        await self.membership.check()
        await self._end_last_life()
        await remove_leftovers(self._store)
        for follow, kind in (
            (self._strangers.follow, KeyKind.NODE),
            (self.states.follow, KeyKind.NODE_STATE),
        ):
            self._store.watch(follow)
            follow(await self._stored(kind))
        self._store.watch(self.shell.store_changed)
        self._store.watch(self.redundancy.redundancy.store_changed)
        for kind in (KeyKind.NODE_STATE, KeyKind.CHOSEN_NODES, KeyKind.GROUP, KeyKind.NODE):
            self.shell.tell(StoreChanged(await self._stored(kind)))
        await self._require_name()

    async def _stored(self, kind: KeyKind) -> list[Change]:
        return [Change(record.key, record) for record in await self._store.range(prefix(kind))]

    async def open_storage_first(self, messages: MessageStorage) -> None:
        """Open the storage of virtual hosts that are created from now on."""
        await open_storage_first(self._store, messages, self._node.give_up)

    def queues_loaded(self) -> None:
        """All queues exist: keep what the disk has of their copies."""
        self.shell.tell(QueuesLoaded())

    async def join(self) -> None:
        """Everything is in place: let the others know. Raises NotWelcome or NameTaken."""
        await self.links.meet()
        self._reports.begin()
        await self.links.open()
        await self.keeper.join()
        await self.membership.enrol()
        explain_strategy(self._context.config.partition_handling)
        self.states.start()
        self.redundancy.start()
        _log.info("node has joined", name=self.name, nodes=",".join(self.running_nodes))

    async def _require_name(self) -> None:
        """Raises NameTaken if a living node of our name says so itself."""
        record = await self._store.get(node_key(self.name))
        session = None if record is None else decode_session(record.value)
        if session is not None:
            address = Endpoint(session.cluster_host, session.cluster_port)
            if await is_name_in_use(self.links, address):
                raise self._name_taken()

    def _name_taken(self) -> NameTaken:
        return NameTaken(
            f"there is a living node '{self.name}' in cluster '{self._store.namespace}' "
            "already; choose another name with --name, or stop that one"
        )

    async def _put_session(self, lease: Lease) -> None:
        """Begin another life; a predecessor's session may take a while to end. Raises NameTaken."""
        incarnation = new_token()
        self.shell.tell(SessionPending(incarnation))
        await asyncio.to_thread(_write_lease, self._lease_file, lease)
        key = node_key(self.name)
        deadline = asyncio.get_running_loop().time() + NAME_WAIT_S_MAX
        put = Put(key, encode_session(self._session(incarnation, lease)), lease)
        while not await self._store.tell(put, Check(key, 0)):
            if asyncio.get_running_loop().time() > deadline:
                raise self._name_taken()
            await asyncio.sleep(NAME_RETRY_S)
        # The others have forgotten what went with the old session.
        self.states.tell()
        self.links.tell(self.tallies.whole())
        self.shell.tell(SessionBegun())

    async def leave(self) -> None:
        """Before anything is taken down: nobody shall wait for us any more, nor we for them."""
        if not self._context.tenure.is_frozen:
            self.states.tell()  # by a task of its own, so it has what `leave` notes
            await self.shell.leave(StopWanted(), LEAVE_S_MAX)
        self._store.leave()
        await self.keeper.stop()
        self.states.stop()
        if self._context.tenure.is_frozen:
            self.broker.forget_lease()
        else:
            keys = node_key(self.name), node_state_key(self.name)
            with suppress(MetadataUnavailable):
                await self._store.transact([], [Delete(key) for key in keys])
        self.links.stop_serving()

    def close(self) -> None:
        self._reports.stop()
        self.links.close()

    async def _end_last_life(self) -> None:
        """A killed predecessor's session would last a while; this directory is ours alone."""
        lease_id = await asyncio.to_thread(_read_lease, self._lease_file)
        if lease_id:
            await self._store.revoke(Lease(lease_id, SESSION_TTL_S))

    def _session(self, incarnation: str, lease: Lease) -> Session:
        config = self._context.config
        host = self.links.endpoint.host or "127.0.0.1"
        amqp = config.tcp_listeners[0].port if config.tcp_listeners else 0
        return Session(
            node=self.name,
            incarnation=incarnation,
            lease=lease.id,
            cluster_host=host,
            cluster_port=self.links.endpoint.port,
            amqp_port=amqp,
            http_url=_http_url(config),
            version=__version__,
            links_over_tls=self.links.client_tls is not None,
        )

    # What the machine has decided about sessions.

    def own_session_lost(self) -> None:
        self.keeper.session_gone()

    def node_connected(self, session: Session) -> None:
        self._store.applied.joined(session.node)
        address = Endpoint(session.cluster_host, session.cluster_port)
        node = self.links.add(session.node, address, session.links_over_tls)
        self._reply_desks[session.node] = reply_desk_of(node.asker)
        self.shell.moves.node_connected(session.node)
        _log.info("node is up", node=session.node, address=address, version=session.version)

    def node_disconnected(self, session: Session) -> None:
        del self._reply_desks[session.node]
        self.links.remove(session.node)
        self._store.applied.left(session.node)
        self.tallies.forget(session.node)
        self.on_sample(session.node, {})
        _log.warning("node is down", node=session.node)

    def publish_state(self) -> None:
        self.states.tell()

    def are_clean(self, key: str, nodes: Iterable[str]) -> bool:
        return self._reports.are_clean(key, nodes)

    # What links tell.

    def applied(self, node: str, revision: int) -> None:
        self._store.applied.heard(node, revision)

    def counted(self, node: str, news: Counted) -> None:
        sample = sample_in(news)
        if self.heads is not None and self.heads.heard(news):
            return
        if sample is None:
            self.tallies.heard(node, news)
        else:
            self.on_sample(node, sample)

    def tell_sample(self, sample: dict[str, int]) -> None:
        """Let the other nodes have a sample of this node's statistics."""
        self.links.tell([sample_news(sample)])

    def greetings(self) -> Sequence[Control]:
        heads = [] if self.heads is None else self.heads.whole()
        return [*self.tallies.whole(), *heads]

    def use_heads(self, heads: HeadTimes) -> None:
        """Have nodes tell each other when the heads of their queues came."""
        self.heads = heads
        heads.tell = self.links.tell

    def process_gone(self, node: str) -> None:
        self.shell.tell(ProcessGone(node))

    def refused_for_good(self, node: str, reason: str) -> None:
        self._strangers.refused(node, reason)

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
        self._context.spawn(queue.resume_consumers())

    def master_missing(self, queue: RemoteQueue, node: str) -> None:
        self.shell.tell(MasterMissing((queue.record.vhost, queue.record.name), node))

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        return make_inbox(queue, control)

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        """The other node may have heard before us that we lead."""
        if (control.vhost, control.queue) not in self.node.replicas:
            return False
        asyncio.get_running_loop().call_later(OPEN_AGAIN_S, again, control)
        return True

    def disk_refused(self) -> None:
        """A write has failed: have the queues led elsewhere that cannot be written here."""
        loop = asyncio.get_running_loop()
        for vhost in tuple(self._context.queue_factory.storages):
            if self.shell.is_disk_doubtful(vhost):
                # Later: the storage that tells of it is in the middle of its batch.
                loop.call_soon(self.shell.tell, DiskRefused(vhost))

    # What all nodes know of each other.

    async def drain(self) -> None:
        """Take this node out of service: other nodes lead what they have synchronised copies of."""
        # The state is written by a task of its own, so it has what `leave` notes in the view.
        self.states.tell()
        await self.shell.leave(DrainWanted(True), LEAVE_S_MAX)

    def revive(self) -> None:
        self.shell.tell(DrainWanted(False))
        self.states.tell()

    def is_only_on(self, record: QueueRecord, node: str) -> bool:
        return is_only_on(self.view, record, node)

    async def forget_copies(self, node: str) -> None:
        await forget_copies(self._store, node)

    def is_node_drained(self, node: str) -> bool:
        return node in self.view.drained

    def _own_state(self) -> NodeState:
        alarms = self._context.brake.board.alarms
        return NodeState(
            {alarm.resource.value: alarm.since_s for alarm in alarms if alarm.node == self.name},
            self.name in self.view.drained,
            tuple(self._node.listeners()),
            platform.python_version(),
            tuple(sorted(self.node.reachability.unreachable)),
            self.node.leaving.is_stopping,
        )

    def _count_changed(self, scope: Scope, name: str) -> None:
        if self.tallies.changed(scope, name):
            loop = asyncio.get_running_loop()
            loop.call_later(TALLY_S, lambda: self.links.tell(self.tallies.news()))


def _http_url(config: Config) -> str:
    if config.has_plain_http:
        return f"http://{config.http_ip or '127.0.0.1'}:{config.http_port}"
    over_tls = config.management_tls
    return f"https://{over_tls.ip or config.http_ip or '127.0.0.1'}:{over_tls.port}"


def _write_lease(path: Path, lease: Lease) -> None:
    path.write_text(f"{lease.id}\n")


def _read_lease(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
