"""A node's part in a cluster: one machine, that is told events and answers with actions.

    store, links, disk, clock, operator ── event ──► ClusterNode ── actions ──► the shell does them

Which copies of a queue there should be, where each queue's master is, what a lost link, a lost
session, a full disk, a policy change, a node that stops or comes back mean, and in which order: all
of it is decided here, from one model (`view`). Nothing here waits, reads a clock or opens a socket,
so the simulator runs this very machine, thousands of clusters of it, and breaks it on purpose.

**One order.** A change of the store is handled as a whole: the broker has applied the topology;
the view takes in groups, then sessions; then replicas hear of their records, and of sessions that
ended; then masters are located and copies planned. A decision never sees half of a change.

**Nothing is polled.** Each decision names what it depends on, and is made again when that changes:

    what has changed                      what is decided again
    ────────────────────────────────────  ──────────────────────────────────────────────────────────
    a group's record                      what the replica does; where the master is; copies
    a queue, its policy                   which copies it should have
    a session began or ended              where masters are; all copies planned here
    a link came up                        invitations, which may have been lost with the last one;
                                          copies that waited for a ring without a cut
    a mirror told what it has (`Kept`)    whether it is to be synchronised

`overlooked` makes all plans again and says what they would do; the simulator asserts after every
event that this is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from warren.cluster.actions import (
    Action,
    ConnectNode,
    DisconnectNode,
    OwnSessionLost,
    RemoveQueues,
    RevokeSession,
)
from warren.cluster.copy_keeping import CopyKeeping
from warren.cluster.copy_planning import Step
from warren.cluster.events import (
    CommitAnswered,
    CopyPrepared,
    DiskRefused,
    DrainWanted,
    Event,
    FramesArrived,
    LinkDown,
    LinkGivenUp,
    LinkUp,
    MasterMissing,
    MemoryRecovered,
    NewsArrived,
    ProcessGone,
    QueueRenewed,
    QueuesLoaded,
    RelocationWanted,
    SessionBegun,
    SessionPending,
    StopWanted,
    StoreChanged,
    TimerFired,
    TurnEnded,
)
from warren.cluster.group_log import GroupLog
from warren.cluster.joining import Joining, JoiningSurroundings
from warren.cluster.kept_copies import KeptCopies
from warren.cluster.leaving import Leaving
from warren.cluster.lifetimes import lost_names
from warren.cluster.link.control import BecomeMirror, Held, Kept, OutOfReach
from warren.cluster.masters import names_led_by, names_synced_on
from warren.cluster.node_replica import NodeReplica, ReplicaParts
from warren.cluster.reachability import Reachability
from warren.cluster.redirection import Redirection
from warren.cluster.ring_traffic import deliver_frames, deliver_held
from warren.cluster.sessions import Session
from warren.cluster.synchronisation import Synchronisation
from warren.cluster.view import ViewChange
from warren.metadata.store import Change
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.replication.classic.retained import RetainedMessages
from warren.replication.gm.frames import MalformedFrame
from warren.replication.group_record import GroupRecord, Member, SessionGone, make_member_id
from warren.replication.stream.stream_mirror import StreamMirror

_log = EventLog("mirror")


class ClusterNode:
    def __init__(self, parts: ReplicaParts, around: JoiningSurroundings) -> None:
        self.view = parts.view
        self.replicas: dict[QueueName, NodeReplica] = {}
        self.copies = CopyKeeping(parts, around, self)
        self.relocations = self.copies.relocations
        self.leaving = Leaving(parts.view, parts.effects, self)
        self.log = GroupLog(parts.view, parts.sync.events)
        self.stories = parts.stories
        self._parts = parts
        self._around = around
        self._effects = parts.effects
        self._files = parts.files
        self._by_uid: dict[str, NodeReplica] = {}
        self._member_numbers = count(1)
        limit_ms = parts.sync.terms.mirror_timeout_ms
        self.reachability = Reachability(parts.view, parts.effects, self.replicas, limit_ms)
        self._kept = KeptCopies(parts.view.name)
        self._joining = Joining(parts, around, self, self._kept)
        self._clients = Redirection(parts.view, parts.effects)
        self.has_session = False
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            StoreChanged: lambda event: self._store_changed(event.changes),
            SessionPending: self._life_changed,
            SessionBegun: self._life_changed,
            QueuesLoaded: self._life_changed,
            LinkUp: self._link_changed,
            LinkDown: self._link_changed,
            LinkGivenUp: self._link_changed,
            ProcessGone: self._link_changed,
            FramesArrived: self.frames_arrived,
            NewsArrived: lambda event: self._news_arrived(event.news),
            MasterMissing: lambda event: self._clients.locate(event.name, event.node),
            CommitAnswered: lambda event: self._effects.answer(event.token, event.is_stored),
            TimerFired: lambda event: self._effects.fire(event.token),
            TurnEnded: lambda event: self._effects.end_turn(),
            CopyPrepared: lambda event: self._joining.copy_prepared(event.name, event.uid),
            QueueRenewed: lambda event: self.copies.queue_renewed(event.name, event.is_renewed),
            DiskRefused: lambda event: self.leaving.leave_full_disk(event.vhost),
            MemoryRecovered: lambda event: self._go_on_synchronising(),
            RelocationWanted: self._wanted,
            DrainWanted: self._wanted,
            StopWanted: self._wanted,
        }

    # Events.

    def handle(self, event: Event) -> list[Action]:
        """Decide what follows from an event; the actions are to be done in this order."""
        self._effects.begin()
        try:
            self._handlers[type(event)](event)
        except BaseException:
            self._effects.abandon()
            raise
        return self._effects.end()

    # The store.

    def _store_changed(self, changes: Sequence[Change]) -> None:
        changed = self.view.apply(changes)
        if changed.is_own_session_lost:
            self._effects.add(OwnSessionLost())
        for session in changed.ended:
            self._disconnect(session)
        for session in changed.begun:
            self._effects.add(ConnectNode(session))
        for name, before in changed.groups:
            self._group_changed(name, before)
        for session in changed.ended:
            self._session_ended(session)
        for session in changed.begun:
            for name in names_synced_on(self.view, session.node):
                self._locate(name)
        self._plan_changed(changed)
        if changed.ended:
            self._remove_lost()
        if changed.is_any_state_changed:
            self.reachability.move_masters()
        self.leaving.go_on(changed)

    def _plan_changed(self, changed: ViewChange) -> None:
        if changed.ended or changed.begun:
            self._plan_all()
            return
        for vhost in changed.vhosts_of_policies:
            self._plan_all(vhost)
        for name in dict.fromkeys((*changed.queues, *(name for name, _ in changed.groups))):
            self._plan(name)

    def _group_changed(self, name: QueueName, before: GroupRecord | None) -> None:
        group, host = self.view.group_of(name), self.replicas.get(name)
        self._kept.changed(name, group)
        if group is None:
            self._group_ended(name, before, host)
            return
        self.stories.note(name, "record", group)
        if not self.view.is_led_here(group):
            self.relocations.forget(name)
        mirror = None if host is None else host.replica.mirror
        self.log.changed(name, before, group, None if mirror is None else mirror.lacking)
        if host is not None:
            host.expelled &= {member.id for member in group.live}
            host.invited -= {member.node for member in group.live}
            host.replica.record_changed(group, self.view.groups[name].version)
            if host.replica.record is group:
                self.tell_ends(host, group)
        if name not in self.replicas:
            self._joining.take_place(name, group)
        self._locate(name)
        self._joining.follow_invitation(name)

    def _group_ended(
        self, name: QueueName, before: GroupRecord | None, host: NodeReplica | None
    ) -> None:
        self.stories.note(name, "group has ended")
        self._joining.forget(name)
        if before is not None:
            self.log.removed(name, before)
        if host is not None:
            host.replica.record_changed(None, host.replica.revision + 1)
            self._forget(host)
        self._locate(name)

    def tell_ends(self, host: NodeReplica, group: GroupRecord) -> None:
        """A member may be in the record whose session ended before we heard of the member."""
        for member in group.live:
            if not self.view.is_alive(member):
                host.replica.session_ended(SessionGone(member.node, member.incarnation))

    # Sessions.

    def _disconnect(self, session: Session) -> None:
        """Move clients off the link first, so that they wait and are not refused."""
        for name in names_led_by(self.view, session.node):
            self._locate(name)
        self._effects.add(DisconnectNode(session))

    def _session_ended(self, session: Session) -> None:
        self.reachability.link_up(session.node)  # its timer is of no use any more
        for host in tuple(self.replicas.values()):
            host.invited.discard(session.node)
            host.replica.session_ended(SessionGone(session.node, session.incarnation))

    def _remove_lost(self) -> None:
        names = lost_names(self.view)
        if names and self.has_session:
            self._effects.add(RemoveQueues(names))

    def _life_changed(self, event: SessionPending | SessionBegun | QueuesLoaded) -> None:
        match event:
            case SessionPending(incarnation):
                self.view.incarnation = incarnation
            case QueuesLoaded():
                self._clients.is_loaded = True
                self._claim()
                for name in tuple(self.view.groups):
                    self._locate(name)
            case SessionBegun():
                self.has_session = True
                self._begin_again()
                self._plan_all()

    def _claim(self) -> None:
        """Keep what the disk has of copies; what no group counts on is deleted by the storage."""
        for name, stored in tuple(self.view.groups.items()):
            record = self.view.topology.record_of(name)
            is_durable = record is not None and record.durable
            if is_durable and self._kept.is_recoverable(stored.record):
                self._kept.keep(name, stored.record.uid, self._files.recovered(name))

    def _begin_again(self) -> None:
        """This node has another session: its members of before are gone, their copies are not."""
        for host in tuple(self.replicas.values()):
            if host.replica.me.incarnation == self.view.incarnation:
                continue  # a master knew of the session before we did, and invited us already
            levels = host.retire()
            del self.replicas[host.name], self._by_uid[host.replica.uid]
            if host.name in self.view.groups:
                successor = self.add_replica(host.name, host.replica.uid)
                self._joining.take_part(successor, successor.make_mirror(levels))
                self._locate(host.name)
        for name in self._kept.names():
            uid = self.view.groups[name].record.uid
            host = self.add_replica(name, uid)
            self._joining.take_part(host, host.make_mirror(self._kept.take(name, uid)))

    # Links.

    def _link_changed(self, event: LinkUp | LinkDown | LinkGivenUp | ProcessGone) -> None:
        node = event.node
        if node not in self.view.sessions:
            return
        match event:
            case LinkUp():
                self._link_up(node)
            case LinkDown(_, silent_ms):
                self.view.linked.discard(node)
                for host in tuple(self.replicas.values()):
                    host.replica.link_down(node)
                self.reachability.link_down(node, silent_ms)
            case LinkGivenUp():
                self.view.given_up.add(node)
                for name in names_led_by(self.view, node):
                    self._locate(name)
            case ProcessGone():
                self._effects.add(RevokeSession(self.view.sessions[node]))

    def _link_up(self, node: str) -> None:
        self.view.linked.add(node)
        self.view.given_up.discard(node)
        self.reachability.link_up(node)
        for host in tuple(self.replicas.values()):
            host.invited.discard(node)  # an invitation may have been lost with the last link
            host.replica.link_up(node)
        for name in names_led_by(self.view, node):
            self._locate(name)
        self._joining.follow_invitations()
        self._plan_all()

    def frames_arrived(self, event: FramesArrived) -> None:
        try:
            deliver_frames(self._by_uid, event.body, self._joining.frame_came_early)
        except MalformedFrame as error:
            _log.warning("frame of a mirrored queue cannot be decoded", reason=error)

    def _news_arrived(self, news: BecomeMirror | Held | Kept | OutOfReach) -> None:
        if isinstance(news, Held):
            deliver_held(self._by_uid, news.copies)
            self._parts.gathering.held()
            return
        if isinstance(news, BecomeMirror):
            self._joining.invited(news)
            return
        host = self._by_uid.get(news.uid)
        if host is None:
            return
        match news:
            case Kept():
                host.note("hears what a mirror has from before", news.member, news.epoch)
                remains = RetainedMessages(news.runs, news.used_below, news.used_from)
                host.replica.kept(news.member, news.epoch, remains)
                self._plan(host.name)
            case OutOfReach():
                self.reachability.reported(host, news)

    def _go_on_synchronising(self) -> None:
        for host in self.replicas.values():
            if host.sync is not None:
                host.sync.synchroniser.wake()

    # Where masters are, and copies.

    def _locate(self, name: QueueName) -> None:
        self._clients.locate(name)

    def _plan(self, name: QueueName) -> None:
        self.copies.plan(name)

    def _plan_all(self, vhost: str | None = None) -> None:
        self.copies.plan_all(vhost)

    def overlooked(self) -> list[tuple[QueueName, Step]]:
        """Return what plans made now would do: nothing, unless a change was overlooked."""
        return self.copies.overlooked()

    def may_plan(self) -> bool:
        return self.has_session and not self.leaving.is_stopping

    # Replicas.

    def add_replica(self, name: QueueName, uid: str, me: Member | None = None) -> NodeReplica:
        """Add a replica that is this member, or else a new one."""
        if me is None:
            node, incarnation = self.view.name, self.view.incarnation
            number = next(self._member_numbers)
            me = Member(make_member_id(node, incarnation, number), node, incarnation)
        host = NodeReplica(name, uid, me, self, self._parts)
        self.replicas[name] = self._by_uid[uid] = host
        return host

    def disk_refuses(self, vhost: str) -> None:
        self.leaving.leave_full_disk(vhost)

    def replica_stopped(self, replica: NodeReplica, reason: str) -> None:
        self._forget(replica)
        self._locate(replica.name)

    def _forget(self, host: NodeReplica) -> None:
        """Drop a replica; its copy is kept as long as it may be needed."""
        if self.replicas.get(host.name) is host:
            del self.replicas[host.name]
            del self._by_uid[host.replica.uid]
            self._kept.keep(host.name, host.replica.uid, host.levels_left())
            self._kept.changed(host.name, self.view.group_of(host.name))

    def led(self, names: Iterable[QueueName] | None = None) -> list[NodeReplica]:
        """Replicas of this node that lead a queue that exists; of these names, or of all."""
        wanted = self.replicas if names is None else filter(self.replicas.__contains__, names)
        hosts = [self.replicas[name] for name in wanted if self.view.topology.record_of(name)]
        return [host for host in hosts if host.replica.master is not None]

    def sync_of(self, name: QueueName) -> Synchronisation | None:
        """Return the synchronisation of a mirrored queue that this node leads, or None."""
        host = self.replicas.get(name)
        is_led = host is not None and host.replica.master is not None
        return host.sync if host is not None and is_led else None

    def stream_mirror_in_sync(self, name: QueueName) -> StreamMirror | None:
        """Return this node's mirror of a stream, if it lacks nothing."""
        host, group = self.replicas.get(name), self.view.group_of(name)
        if host is None or group is None or host.replica.me.id not in group.insync:
            return None
        mirror = host.replica.mirror
        return mirror if isinstance(mirror, StreamMirror) else None

    # Wishes of operators.

    def _wanted(self, event: RelocationWanted | DrainWanted | StopWanted) -> None:
        match event:
            case RelocationWanted(name, node):
                self.relocations.begin(name, node)
            case DrainWanted(is_drained):
                if is_drained:
                    self.view.drained.add(self.view.name)
                    self.leaving.begin(is_stopping=False)
                else:
                    self.view.drained.discard(self.view.name)
                    self.leaving.cancel()
            case StopWanted():
                self.leaving.begin(is_stopping=True)
