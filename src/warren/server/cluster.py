"""A node's life in a cluster: its session, the others' sessions, links, and homes of queues.

    session of this node put -> others see it, link to us, and wait for us before they say ok
    session of another put   -> link to it, its queues get an asker
    session of another gone  -> its queues are down: publishes refused, consumers cancelled
    our own session gone     -> a new life: another lease, another session (`session_keeper`)

The session goes up last at a start and down first at a stop.
"""

from __future__ import annotations

import asyncio
import platform
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from warren import __version__
from warren.broker.broker import Broker
from warren.broker.vhost import VirtualHost
from warren.cluster.asker import Asker, reply_desk_of
from warren.cluster.link_handshake import Identity
from warren.cluster.node_states import Listener, NodeState
from warren.cluster.placement import Locator, home_for, locator_of
from warren.cluster.remote_queue import RemoteQueue
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
from warren.metadata.keys import KeyKind, node_key, node_state_key, parse_key, prefix
from warren.metadata.store import (
    Change,
    Check,
    Delete,
    Lease,
    MetadataError,
    MetadataUnavailable,
    Put,
)
from warren.model.errors import AmqpError
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.policy.wanted_copies import nodes_for_masters
from warren.queues.settings import QueueSettings
from warren.server.applied_reports import AppliedReports
from warren.server.cluster_store import ClusterStore
from warren.server.context import ConnectionContext, new_token
from warren.server.links import Links
from warren.server.membership import Membership
from warren.server.message_storage import MessageStorage
from warren.server.mirroring.forgetting import forget_copies
from warren.server.mirroring.homes import Homes
from warren.server.mirroring.mirrors import Mirrors
from warren.server.namesake import is_answering
from warren.server.node_states import NodeStates, Own
from warren.server.session_keeper import SessionKeeper
from warren.server.strangers import Strangers
from warren.server.transient_exchanges import remove_leftovers
from warren.server.vhost_rooms import keep_rooms_ready

LEASE_FILE: Final = "lease"
# Longer than a dead predecessor's session can last, in case it left no sign of its lease.
NAME_WAIT_S_MAX: Final = SESSION_TTL_S + 3.0
NAME_RETRY_S: Final = 0.5
# Connections and channels that come and go within this time are told of together.
TALLY_S: Final = 0.05

_log = EventLog("cluster")


class Cluster:
    def __init__(self, context: ConnectionContext, store: ClusterStore) -> None:
        config = context.config
        self.name = config.name
        self.incarnation = ""
        """Of the session put last."""
        self.keeper = SessionKeeper(context, self._put_session)
        self.sessions: dict[str, Session] = {}
        self._context = context
        self._store = store
        self.lock = DirectoryLock(config.data_dir)
        self._lease_file = config.data_dir / LEASE_FILE
        self._lost_askers: dict[str, Asker] = {}
        self._reply_desks: dict[str, RemoteQueue] = {}
        # Whoever runs the node sets this: what to do when it must not go on.
        self.give_up: Callable[[str], None] = lambda reason: None
        # Where this node listens; whoever starts it knows.
        self.listeners: Callable[[], list[Listener]] = list
        secret = config.cluster_secret.encode()
        me = Identity(store.namespace, self.name, new_token(), __version__, secret)
        self.links = Links(context, me)
        self.links.on_applied = store.applied.heard
        self._strangers = Strangers(self.name, store.namespace, self._must_stop)
        self.links.on_refused = self._strangers.refused
        self._reports = AppliedReports(self.links, store)
        self.membership = Membership(context, store)
        self.is_drained = False
        own = Own(self.name, self._own_state, lambda: self.broker.lease)
        self.states = NodeStates(own, store, context.brake.board)
        self._count_over_all_nodes()
        self.links.on_dead = self._end_session_of
        self.mirrors = Mirrors(self, context)
        self.homes = Homes(self, context)
        self.links.user = self.mirrors
        context.queue_factory.node = self.name
        context.queue_factory.make_remote = self.make_remote
        context.reply_registry.node = self.name
        context.reply_registry.desk_of = self._reply_desks.get
        self.broker.place_queue = self.place
        self.broker.lease_of_node = self.lease_of
        self.broker.lease_of_no_node = lambda: None
        self.broker.on_bereft = lambda vhost: context.spawn(self._remove_bereft(vhost))
        self.broker.lease_ttl_s = SESSION_TTL_S
        self.broker.companions_of_queue = self.mirrors.groups.keys_of
        self.broker.outlives_home = self.mirrors.lifetimes.outlives_home
        self.broker.is_masterless = self.mirrors.lifetimes.is_masterless
        self.membership.is_only_on = self.mirrors.lifetimes.is_only_on
        self.membership.forget_copies = partial(forget_copies, store)
        self.broker.until_ready = self.mirrors.keeper.until_mirrored

    @property
    def store(self) -> ClusterStore:
        return self._store

    @property
    def broker(self) -> Broker:
        return self._context.broker

    @property
    def running_nodes(self) -> list[str]:
        return sorted({self.name, *self.links.nodes})

    # Life.

    def bind(self) -> None:
        """Raises CannotListenError."""
        self.links.bind(Endpoint(self._context.config.http_ip, self._context.config.cluster_port))

    async def follow(self) -> None:
        """The store is open, the topology not yet built: know the others first."""
        self._store.watch(self.membership.follow)
        await self.membership.check()
        await self._end_last_life()
        await remove_leftovers(self._store)
        for follow, kind in (
            (self._strangers.follow, KeyKind.NODE),
            (self._on_changes, KeyKind.NODE),
            (self.states.follow, KeyKind.NODE_STATE),
        ):
            self._store.watch(follow)
            records = await self._store.range(prefix(kind))
            follow([Change(record.key, record) for record in records])
        await self._require_name()
        await self.mirrors.load()

    async def keep_rooms_ready(self, messages: MessageStorage) -> None:
        """The storage of what there is has been opened; see to what is yet to come."""
        await keep_rooms_ready(self._store, messages, self._must_stop)

    async def join(self) -> None:
        """Everything is in place: let the others know. Raises NotWelcome or NameTaken."""
        await self.links.meet()
        self._reports.begin()
        await self.links.open()
        await self.keeper.join()
        await self.membership.enrol()
        explain_strategy(self._context.config.partition_handling)
        self.states.start()
        self.mirrors.start()
        _log.info("node has joined", name=self.name, nodes=",".join(self.running_nodes))

    async def _require_name(self) -> None:
        """Raises NameTaken if a living node of our name says so itself."""
        record = await self._store.get(node_key(self.name))
        session = None if record is None else decode_session(record.value)
        if session is not None:
            address = Endpoint(session.cluster_host, session.cluster_port)
            if await is_answering(self.links, address):
                raise self._name_taken()

    def _name_taken(self) -> NameTaken:
        return NameTaken(
            f"there is a living node '{self.name}' in cluster '{self._store.namespace}' "
            "already; choose another name with --name, or stop that one"
        )

    async def _put_session(self, lease: Lease) -> None:
        """Another life; a predecessor of our name may take a while to go. Raises NameTaken."""
        self.incarnation = new_token()
        await asyncio.to_thread(_write_lease, self._lease_file, lease)
        key = node_key(self.name)
        deadline = asyncio.get_running_loop().time() + NAME_WAIT_S_MAX
        put = Put(key, encode_session(self._session(lease)), lease)
        while not await self._store.tell(put, Check(key, 0)):
            if asyncio.get_running_loop().time() > deadline:
                raise self._name_taken()
            await asyncio.sleep(NAME_RETRY_S)
        # The others have forgotten what went with the old session.
        self.states.tell()
        self.links.tell(self.tallies.whole())
        self.mirrors.session_renewed()

    async def leave(self) -> None:
        """Before anything is taken down: nobody shall wait for us any more, nor we for them."""
        if not self._context.tenure.is_frozen:
            await self.mirrors.lifetimes.stop()
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

    def _must_stop(self, reason: str) -> None:
        self.give_up(reason)

    async def _end_last_life(self) -> None:
        """A killed predecessor's session would last a while; this directory is ours alone."""
        lease_id = await asyncio.to_thread(_read_lease, self._lease_file)
        if lease_id:
            await self._store.revoke(Lease(lease_id, SESSION_TTL_S))

    def _session(self, lease: Lease) -> Session:
        config = self._context.config
        host = self.links.endpoint.host or "127.0.0.1"
        amqp = config.tcp_listeners[0].port if config.tcp_listeners else 0
        return Session(
            node=self.name,
            incarnation=self.incarnation,
            lease=lease.id,
            cluster_host=host,
            cluster_port=self.links.endpoint.port,
            amqp_port=amqp,
            http_url=_http_url(config),
            version=__version__,
            links_over_tls=self.links.client_tls is not None,
        )

    # Other nodes.

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = parse_key(change.key)
            if key is None or key.kind is not KeyKind.NODE:
                continue
            session = decode_session(change.record.value) if change.record is not None else None
            if key.parts[0] == self.name:
                if session is None or session.incarnation != self.incarnation:
                    self.keeper.session_gone()
            elif session is None:
                self._left(key.parts[0])
            else:
                self._joined(session)

    def _joined(self, session: Session) -> None:
        old = self.sessions.get(session.node)
        if old == session:
            return
        if old is not None:
            self._left(session.node)
        self.sessions[session.node] = session
        self._store.applied.joined(session.node)
        address = Endpoint(session.cluster_host, session.cluster_port)
        node = self.links.add(session.node, address, session.links_over_tls)
        for queue in self._queues_of(session.node):
            if self.mirrors.groups.group_of(queue.record) is None:
                queue.asker = node.asker
            else:
                self.homes.rehome((queue.record.vhost, queue.record.name))
        self._reply_desks[session.node] = reply_desk_of(node.asker)
        self.homes.node_is_up(session.node)
        _log.info("node is up", node=session.node, address=address, version=session.version)

    def _left(self, name: str) -> None:
        session = self.sessions.pop(name, None)
        if session is None:
            return
        del self._reply_desks[name]
        self.links.remove(name)
        self.homes.node_is_down(name)
        self._store.applied.left(name)
        self.tallies.forget(name)
        self.mirrors.session_ended(name, session.incarnation)
        _log.warning("node is down", node=name)

    async def _end_session_of(self, name: str) -> None:
        """A node's door is shut: waiting for its session to end would only keep clients waiting.

        The lease is that of the life whose link broke; a later life has another.
        """
        session = self.sessions.get(name)
        if session is not None:
            _log.warning("node has shut its port: its session is ended", node=name)
            with suppress(MetadataUnavailable):
                await self._store.revoke(Lease(session.lease, SESSION_TTL_S))

    async def _remove_bereft(self, vhost: VirtualHost) -> None:
        """A node's transient queues are gone: all nodes see to what goes along, the first wins."""
        with suppress(MetadataError, AmqpError):
            await vhost.remove_bereft()

    def _queues_of(self, node: str) -> list[RemoteQueue]:
        return [
            queue
            for vhost in self.broker.vhosts.values()
            for queue in vhost.queues.values()
            if isinstance(queue, RemoteQueue) and self.mirrors.groups.home_of(queue.record) == node
        ]

    def lease_of(self, node: str) -> Lease | None:
        """What something transient at that node is put with; None for this node."""
        session = self.sessions.get(node)
        return None if session is None else Lease(session.lease, SESSION_TTL_S)

    # What all nodes know of each other.

    def is_node_drained(self, node: str) -> bool:
        if node == self.name:
            return self.is_drained
        state = self.states.others.get(node)
        return state is not None and state.is_drained

    def _own_state(self) -> NodeState:
        alarms = self._context.brake.board.alarms
        return NodeState(
            {alarm.resource.value: alarm.since_s for alarm in alarms if alarm.node == self.name},
            self.is_drained,
            tuple(self.listeners()),
            platform.python_version(),
        )

    def _count_over_all_nodes(self) -> None:
        admission = self._context.admission
        self.tallies = Tallies(admission.counts)
        self.links.on_counted = self.tallies.heard
        self.links.greetings = self.tallies.whole
        admission.elsewhere = self.tallies.elsewhere
        admission.on_change = self._count_changed

    def _count_changed(self, scope: Scope, name: str) -> None:
        if self.tallies.changed(scope, name):
            loop = asyncio.get_running_loop()
            loop.call_later(TALLY_S, lambda: self.links.tell(self.tallies.news()))

    # Homes of queues.

    def make_remote(self, record: QueueRecord, settings: QueueSettings) -> RemoteQueue:
        remote = RemoteQueue(record, settings, self._asker_of(self.mirrors.groups.home_of(record)))
        self.homes.note(remote)
        if remote.is_mirrored and remote.asker.is_lost:
            self.homes.await_home(remote)
        return remote

    def _asker_of(self, node: str) -> Asker:
        if node in self.links.nodes:
            return self.links.nodes[node].asker
        if node not in self._lost_askers:
            asker = Asker(node, asyncio.get_running_loop().create_future)
            asker.is_lost = True
            self._lost_askers[node] = asker
        return self._lost_askers[node]

    @property
    def nodes_taking_part(self) -> list[str]:
        """Those that run and are in service."""
        return [node for node in self.running_nodes if not self.is_node_drained(node)]

    def place(self, record: QueueRecord, policy: Mapping[str, object]) -> str:
        """Exclusive queues live and die with a connection, so they stay where that is."""
        configured = Locator(self._context.config.queue_master_locator)
        locator = locator_of(record, policy, configured)
        if record.exclusive or locator is Locator.CLIENT_LOCAL:
            return self.name
        counts = self.mirrors.groups.moved_masters()
        for vhost in self.broker.vhosts.values():
            counts.update(vhost.homes)
        candidates = nodes_for_masters(policy, self.nodes_taking_part)
        masters = {node: counts[node] for node in candidates}
        return home_for(locator, self.name, masters, random.choice)


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
