"""The mirrored queues that this node has a part in: what their replicas are told of the world.

Groups follow from policies (`copy_keeper`). The home of a queue that is to be mirrored begins a
group; from then on the group's record says who leads, and that node is the home. Everything else a
replica decides by itself (`mirror/replica.py`); here are the store, links and sessions that it
hears of, and the queues of this node that its decisions are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from warren.broker.broker import Broker
from warren.cluster.control import BecomeMirror, Held, Kept, MirrorNews, OpenQueue
from warren.cluster.inbox import Inbox
from warren.cluster.remote_queue import RemoteQueue
from warren.cluster.sessions import decode_session
from warren.metadata.keys import KeyKind, node_key, parse_key, prefix
from warren.metadata.store import Change, Record
from warren.mirror.frames import MalformedFrame, Payload, decode_frame
from warren.mirror.group_record import (
    GroupRecord,
    Member,
    SessionGone,
    decode_record,
    make_member_id,
)
from warren.mirror.instructions import epoch_of
from warren.mirror.master import MasterBacking
from warren.mirror.mirror import Mirror
from warren.mirror.origins import make_origin
from warren.mirror.rejoining import Remains
from warren.mirror.stream_master import StreamMaster
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.server.connection import AmqpConnection
from warren.server.context import ConnectionContext, new_token
from warren.server.links import LinkUser
from warren.server.logs import EventLog
from warren.server.mirroring.copy_keeper import CopyKeeper
from warren.server.mirroring.group_events import GroupEvents
from warren.server.mirroring.group_log import GroupLog
from warren.server.mirroring.groups import Groups
from warren.server.mirroring.homes import make_inbox
from warren.server.mirroring.kept_copies import KeptCopies, delete
from warren.server.mirroring.levels import recovered_levels
from warren.server.mirroring.lifetimes import Lifetimes
from warren.server.mirroring.relocating import Relocations
from warren.server.mirroring.replica_host import QueueName, ReplicaOfNode
from warren.server.mirroring.suspicion import Suspicion
from warren.server.mirroring.synchronising import SyncOfQueue, throughput_of
from warren.storage.vhost_storage import VhostStorage
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.server.cluster import Cluster

COMING_HOME_S: Final = 0.01

_log = EventLog("mirror")


class Mirrors(LinkUser):
    def __init__(self, cluster: Cluster, context: ConnectionContext) -> None:
        self.cluster = cluster
        self.context = context
        self.groups = Groups(cluster)
        self.replicas: dict[QueueName, ReplicaOfNode] = {}
        self._by_uid: dict[str, ReplicaOfNode] = {}
        self._member_numbers = count(1)
        self._due: list[Callable[[], None]] = []
        self._invitations: dict[QueueName, BecomeMirror] = {}
        """Of groups that are not known here yet, the last one for each queue."""
        self._kept = KeptCopies(cluster.name)
        self.sync_bytes_per_s = throughput_of(context.config)
        self.lifetimes = Lifetimes(self)
        self.relocations = Relocations(self)
        self.is_stopping = False
        self.keeper = CopyKeeper(self)
        self._suspicion = Suspicion(self)
        self.group_events = GroupEvents(context.broker.events)
        self.group_log = GroupLog(self.groups.is_led_here, self.group_events)
        context.queue_factory.home_of = self.groups.home_of

    # What hosts need.

    @property
    def broker(self) -> Broker:
        return self.context.broker

    @property
    def store(self) -> Any:
        return self.cluster.store

    @property
    def storages(self) -> Mapping[str, VhostStorage]:
        return self.context.queue_factory.storages

    def new_origin(self) -> str:
        return make_origin(self.cluster.name, new_token())

    def homeless(self, queue: RemoteQueue) -> None:
        self.cluster.homes.rehome((queue.record.vhost, queue.record.name), is_lost=True)

    def new_member(self) -> Member:
        name, incarnation = self.cluster.name, self.cluster.incarnation
        number = next(self._member_numbers)
        return Member(make_member_id(name, incarnation, number), name, incarnation)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.context.spawn(work)

    def send(self, node: str, buffers: list[Payload]) -> None:
        asked = self.cluster.links.nodes.get(node)
        if asked is not None:
            asked.asker.mirror_frame(b"".join(buffers))

    def tell(self, node: str, news: MirrorNews) -> None:
        asked = self.cluster.links.nodes.get(node)
        if asked is not None:
            asked.asker.tell(news)

    async def version_without(self, gone: SessionGone) -> int | None:
        """The version of the node's key, which is not that session's; None if it is."""
        record = await self.store.get(node_key(gone.node))
        session = None if record is None else decode_session(record.value)
        if session is not None and session.incarnation == gone.incarnation:
            return None
        return 0 if record is None else record.version

    def at_end_of_turn(self, do: Callable[[], None]) -> None:
        if not self._due:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._due.append(do)

    def _end_turn(self) -> None:
        due, self._due = self._due, []
        for do in due:
            do()

    # The store.

    async def load(self) -> None:
        """Before there are queues: where their homes are."""
        self.cluster.store.watch(self._on_changes)
        for record in await self.cluster.store.range(prefix(KeyKind.GROUP)):
            self._take_in(record.key, record)

    def claim(self) -> None:
        """All queues are there: keep what the disk has of their copies."""
        for name, (group, _) in tuple(self.groups.records.items()):
            vhost = self.broker.vhosts.get(name[0])
            queue = None if vhost is None else vhost.queues.get(name[1])
            is_durable = queue is not None and queue.record.durable
            if is_durable and self._kept.is_recoverable(group):
                self._kept.keep(name, group.uid, recovered_levels(self, name))

    def start(self) -> None:
        """This node has a session."""
        self._take_up_kept()
        self.keeper.start()

    def session_renewed(self) -> None:
        """This node lives on, but whoever it was in its groups is gone."""
        for host in tuple(self.replicas.values()):
            if host.replica.me.incarnation == self.cluster.incarnation:
                continue  # a leader knew of the session before we did, and wants a copy here
            levels = host.retire()
            del self.replicas[host.name], self._by_uid[host.replica.uid]
            if host.name in self.groups.records:
                successor = self._add(host.name, host.replica.uid)
                self._take_part(successor, successor.make_mirror(levels))
        self._take_up_kept()

    def _take_up_kept(self) -> None:
        for name in self._kept.names():
            uid = self.groups.records[name][0].uid
            host = self._add(name, uid)
            self._take_part(host, host.make_mirror(self._kept.take(name, uid)))

    def _take_part(self, host: ReplicaOfNode, mirror: Mirror) -> None:
        group, revision = self.groups.records[host.name]
        self._tell_ends(host, group)
        host.replica.record_changed(group, revision)
        for node in self.cluster.sessions:
            if not self.is_linked(node):
                host.replica.link_down(node)
        host.replica.join(mirror)
        _log.info("mirror is joining", queue=str(host))

    def settings_of(self, name: QueueName) -> QueueSettings:
        vhost = self.broker.vhosts[name[0]]
        return vhost.policies.settings_of(vhost.queues[name[1]].record)

    def is_linked(self, node: str) -> bool:
        asked = self.cluster.links.nodes.get(node)
        return asked is not None and asked.asker.output is not None

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = parse_key(change.key)
            if key is None:
                continue
            if key.kind is KeyKind.GROUP:
                self._take_in(change.key, change.record)
            elif key.kind is KeyKind.QUEUE:
                self.keeper.changed((key.parts[0], key.parts[1]))
            elif key.kind in (KeyKind.POLICY, KeyKind.OPERATOR_POLICY):
                asyncio.get_running_loop().call_soon(self.keeper.look_at_all)

    def _take_in(self, key: str, stored: Record | None) -> None:
        parsed = parse_key(key)
        assert parsed is not None
        name = (parsed.parts[0], parsed.parts[1])
        before, _ = self.groups.records.get(name, (None, 0))
        host = self.replicas.get(name)
        if stored is None:
            self._kept.changed(name, None)
            if before is not None:
                del self.groups.records[name]
                self.group_log.removed(name, before)
            if host is not None:
                host.replica.record_changed(None, self.cluster.store.revision)
                self.forget(host)
            # If the queue itself is gone as well, then by that time.
            asyncio.get_running_loop().call_soon(self.cluster.homes.rehome, name)
            return
        group = decode_record(stored.value)
        self.groups.records[name] = (group, stored.version)
        self._kept.changed(name, group)
        mirror = None if host is None else host.replica.mirror
        self.group_log.changed(name, before, group, None if mirror is None else mirror.lacking)
        if host is not None:
            host.replica.record_changed(group, stored.version)
            # When the sessions that were stored along with it are known, too.
            asyncio.get_running_loop().call_soon(self._look_for_ended, host, group)
        self.cluster.homes.rehome(name)
        self.keeper.changed(name)
        invitation = self._invitations.pop(name, None)
        if invitation is not None:
            asyncio.get_running_loop().call_soon(self.become_mirror, invitation)

    def sync_of(self, record: QueueRecord) -> SyncOfQueue | None:
        """Of a queue that is led here, and mirrored."""
        host = self.replicas.get((record.vhost, record.name))
        is_led = host is not None and host.replica.master is not None
        return host.sync if host is not None and is_led else None

    # Nodes and links.

    def session_ended(self, node: str, incarnation: str) -> None:
        for host in tuple(self.replicas.values()):
            host.replica.session_ended(SessionGone(node, incarnation))
        asyncio.get_running_loop().call_soon(self.keeper.look_at_all)
        self.spawn(self.lifetimes.remove_lost())

    def link_up(self, node: str) -> None:
        self._suspicion.link_up(node)
        for host in tuple(self.replicas.values()):
            host.replica.link_up(node)
        self.cluster.homes.link_stands(node)
        asyncio.get_running_loop().call_soon(self.keeper.look_at_all)

    def link_down(self, node: str) -> None:
        for host in tuple(self.replicas.values()):
            host.replica.link_down(node)
        self._suspicion.link_down(node)

    def frame_arrived(self, body: bytes) -> None:
        try:
            frame, payloads = decode_frame(body)
        except MalformedFrame as error:
            _log.warning("a frame of a mirrored queue makes no sense", reason=error)
            return
        host = self._by_uid.get(frame.uid)
        if host is not None:
            host.replica.frame_arrived(frame, payloads)

    def news_arrived(self, news: MirrorNews) -> None:
        if isinstance(news, BecomeMirror):
            self.become_mirror(news)
            return
        host = self._by_uid.get(news.uid)
        if host is None:
            return
        if isinstance(news, Kept):
            host.replica.kept(news.member, news.epoch, Remains(news.runs, news.used_below))
        elif isinstance(news, Held):
            host.replica.held(news.member, news.epoch, news.number)
            if host.sync is not None:
                host.sync.synchroniser.wake()
        else:
            self._suspicion.told(host, news)

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> Inbox:
        return make_inbox(queue, control)

    def comes_home(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        """The other node may have heard before us that we lead."""
        name = (control.vhost, control.queue)
        if name not in self.replicas:
            return False
        asyncio.get_running_loop().call_later(COMING_HOME_S, again, control)
        return True

    def resumed(self, queue: RemoteQueue) -> None:
        self.spawn(queue.resume_consumers())

    def become_mirror(self, wanted: BecomeMirror) -> None:
        """The leader of a queue would like a copy here."""
        name = (wanted.vhost, wanted.queue)
        entry = self.groups.records.get(name)
        vhost = self.broker.vhosts.get(wanted.vhost)
        if entry is None or entry[0].uid != wanted.uid:
            # The leader may have heard before us that there is a group.
            self._invitations[name] = wanted
            return
        if name in self.replicas or self.is_stopping:
            return
        if vhost is None or wanted.queue not in vhost.queues or wanted.vhost not in self.storages:
            return
        # If it is not to be now it is asked again. A copy that cannot be written would keep all
        # publishers waiting, and be put out; a ring with a cut in it is useless.
        if not self._is_disk_doubtful(wanted.vhost) and self._reaches_all(entry[0]):
            self.spawn(self._become_mirror(name, wanted.uid))

    def _is_disk_doubtful(self, vhost: str) -> bool:
        streams = self.context.queue_factory.streams.get(vhost)
        is_any_stream = streams is not None and streams.is_doubtful
        return is_any_stream or self.storages[vhost].index.is_doubtful

    def _reaches_all(self, group: GroupRecord) -> bool:
        alive = [m.node for m in group.live if self.groups.incarnation_of(m) == m.incarnation]
        return all(self.is_linked(node) for node in alive if node != self.cluster.name)

    async def _become_mirror(self, name: QueueName, uid: str) -> None:
        """Once it is sure that the disk has nothing under this name that is not of this group."""
        levels = self._kept.take(name, uid)
        if not levels:
            await self.storages[name[0]].index.flush()
        entry = self.groups.records.get(name)
        if name in self.replicas or entry is None or entry[0].uid != uid:
            delete(levels)
            return
        host = self._add(name, uid)
        self._take_part(host, host.make_mirror(levels))

    # Groups.

    def found(self, name: QueueName) -> None:
        """Begin a group, with what this node has of the queue."""
        host = self._add(name, new_token())
        host.replica.record_changed(None, 0)
        host.replica.found(epoch_of(self._next_sequence(name)))

    def _next_sequence(self, name: QueueName) -> int:
        """Of a queue that has had masters before its numbers are high."""
        queue = self.broker.vhosts[name[0]].queues[name[1]]
        return queue.backing.used_below() if isinstance(queue, Queue) else 0

    def _add(self, name: QueueName, uid: str) -> ReplicaOfNode:
        host = self.replicas[name] = self._by_uid[uid] = ReplicaOfNode(self, *name, uid)
        return host

    def _tell_ends(self, host: ReplicaOfNode, group: GroupRecord) -> None:
        for member in group.live:
            if self.groups.incarnation_of(member) != member.incarnation:
                host.replica.session_ended(SessionGone(member.node, member.incarnation))

    def _look_for_ended(self, host: ReplicaOfNode, group: GroupRecord) -> None:
        """One may have come in whose session had ended before we heard of it."""
        if host.replica.record is group:
            self._tell_ends(host, group)

    def forget(self, host: ReplicaOfNode) -> None:
        """Its copy is kept as long as it may be needed."""
        if self.replicas.get(host.name) is host:
            del self.replicas[host.name]
            del self._by_uid[host.replica.uid]
            self._kept.keep(host.name, host.replica.uid, host.levels_left())
            self._kept.changed(host.name, self.groups.records.get(host.name, (None, 0))[0])

    # Leadership.

    def unacked_of(self, queue: Queue) -> list[QueuedMessage]:
        """What clients have of a queue: its backing does not know, their channels do."""
        connections = [c for c in self.context.connections if isinstance(c, AmqpConnection)]
        here = [channel.deliveries for c in connections for channel in c.channels]
        everywhere = (*here, *self.cluster.links.deliveries())
        unacked = [queued for each in everywhere for queued in each.unacked.values()]
        return [queued for queued in unacked if queued.holder.queue is queue]

    def promoted(self, host: ReplicaOfNode, remote: AbstractQueue, master: MasterBacking) -> None:
        _log.info("queue has come home", queue=str(host), messages=master.length)
        self.cluster.homes.take_home(remote, master)

    def deposed(self, host: ReplicaOfNode, master: MasterBacking) -> None:
        """This node does not lead any more: it is not to be mirrored, or somebody else does."""
        self.context.brake.forget(master.credit)
        vhost = self.broker.vhosts.get(host.vhost)
        queue = vhost.queues.get(host.queue) if vhost is not None else None
        if not isinstance(queue, Queue) or queue.backing is not master:
            return
        if host.name not in self.groups.records:
            if isinstance(master, StreamMaster):
                master.dissolve()
            master.set_in_sync(())
            queue.backing = master.inner
            return
        _log.warning("master is deposed", queue=str(host))
        host.is_abandoned = True
        self.cluster.homes.leave_home(queue, master)
