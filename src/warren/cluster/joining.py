"""Joining: how a copy on this node becomes a member of its queue's group.

the queue is declared, and its group begins       take the place that it gives this node, at
  with a copy on this node (`founding`)             once: the copy is empty, and in sync
the master of a queue invites this node           prepare the disk, and ask to be let in
this node has another session, or has started     go on with the copy that is there (`node`)
"""

from __future__ import annotations

from typing import Protocol

from warren.cluster.actions import PrepareCopy
from warren.cluster.copy_keeping import RETRY_MS, PlanSurroundings
from warren.cluster.early_frames import EarlyFrames
from warren.cluster.events import FramesArrived
from warren.cluster.founding import founding_place
from warren.cluster.kept_copies import KeptCopies, Levels, delete
from warren.cluster.leaving import Leaving
from warren.cluster.link.control import BecomeMirror
from warren.cluster.node_replica import NodeReplica, ReplicaParts
from warren.cluster.reachability import Reachability
from warren.model.logs import EventLog
from warren.model.records import QueueName
from warren.replication.classic.mirror import Mirror
from warren.replication.gm.frames import Frame, Payload
from warren.replication.group_record import GroupRecord, Member

_log = EventLog("mirror")


class JoiningSurroundings(PlanSurroundings, Protocol):
    """The part of a node that the machine asks, and that answers at once."""

    def is_disk_doubtful(self, vhost: str) -> bool:
        """True if the disk has refused a write and taken none since."""
        ...


class JoiningNode(Protocol):
    replicas: dict[QueueName, NodeReplica]
    leaving: Leaving
    reachability: Reachability
    has_session: bool

    def add_replica(self, name: QueueName, uid: str, me: Member | None = None) -> NodeReplica: ...

    def tell_ends(self, host: NodeReplica, group: GroupRecord) -> None: ...

    def frames_arrived(self, event: FramesArrived) -> None: ...


class Joining:
    def __init__(
        self,
        parts: ReplicaParts,
        around: JoiningSurroundings,
        node: JoiningNode,
        kept: KeptCopies,
    ) -> None:
        self._view = parts.view
        self._effects = parts.effects
        self._files = parts.files
        self._stories = parts.stories
        self._around = around
        self._node = node
        self._kept = kept
        self._early = EarlyFrames()
        self._invitations: dict[QueueName, BecomeMirror] = {}
        """The last one for each queue that this node cannot follow yet."""
        self._preparing: set[QueueName] = set()

    # A place in a group that begins.

    def take_place(self, name: QueueName, group: GroupRecord) -> None:
        """Take the place that this node was given when the queue was declared, if it was."""
        me = founding_place(self._view, group)
        if me is None or self._view.topology.record_of(name) is None:
            return
        host = self._node.add_replica(name, group.uid, me)
        mirror = None
        if group.leader != me.id:
            mirror = host.make_mirror({})
            mirror.begin_empty()
        self.take_part(host, mirror)
        for member in group.live:
            if member.node in self._view.sessions and member.node not in self._view.linked:
                self._node.reachability.link_down(member.node)
        early = self._early.take(group.uid)
        for body in early.frames:
            self._node.frames_arrived(FramesArrived(body))
        for sender, stream in early.missed.items():
            host.replica.frames_lost(sender, stream)

    def frame_came_early(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        """Keep a frame of a group that is not known yet."""
        self._early.keep(frame, payloads)

    # Invitations.

    def invited(self, wanted: BecomeMirror) -> None:
        """The master of a queue would like a copy here."""
        name = (wanted.vhost, wanted.queue)
        self._stories.note(name, "is invited", wanted.uid)
        self._invitations[name] = wanted
        self.follow_invitation(name)

    def forget(self, name: QueueName) -> None:
        """The group has ended."""
        self._invitations.pop(name, None)

    def follow_invitations(self) -> None:
        for name in tuple(self._invitations):
            self.follow_invitation(name)

    def follow_invitation(self, name: QueueName) -> None:
        """Become a mirror if that can be; else the invitation is kept until it can.

        The master may have heard before us that there is a group. A copy that cannot be written
        would keep all publishers waiting, and be expelled; a ring with a cut in it is useless.
        """
        wanted, group = self._invitations.get(name), self._view.group_of(name)
        if wanted is None or group is None or group.uid != wanted.uid:
            return
        node = self._node
        if name in node.replicas or name in self._preparing or node.leaving.is_stopping:
            del self._invitations[name]
            return
        if self._view.topology.record_of(name) is None or not self._files.is_open(name[0]):
            return
        if self._around.is_disk_doubtful(name[0]):
            self._effects.call_later(RETRY_MS, lambda: self.follow_invitation(name))
        elif node.has_session and self._view.reaches_all(group):
            del self._invitations[name]
            levels = self._kept.take(name, wanted.uid)
            if levels:
                self._become_mirror(name, wanted.uid, levels)
            else:
                self._preparing.add(name)
                self._effects.add(PrepareCopy(name, wanted.uid))

    def copy_prepared(self, name: QueueName, uid: str) -> None:
        self._preparing.discard(name)
        self._become_mirror(name, uid, {})

    def _become_mirror(self, name: QueueName, uid: str, levels: Levels) -> None:
        group = self._view.group_of(name)
        is_known = self._view.topology.record_of(name) is not None
        if not is_known or name in self._node.replicas or group is None or group.uid != uid:
            delete(levels)
            return
        host = self._node.add_replica(name, uid)
        self.take_part(host, host.make_mirror(levels))

    # Both.

    def take_part(self, host: NodeReplica, mirror: Mirror | None) -> None:
        """Be a member; without a mirror, of a queue that is this node's."""
        stored = self._view.groups[host.name]
        host.note("joins its group")
        self._node.tell_ends(host, stored.record)
        host.replica.record_changed(stored.record, stored.version)
        for node in self._view.sessions:
            if node not in self._view.linked:
                host.replica.link_down(node)
        if mirror is not None:
            host.replica.join(mirror)
            _log.info("mirror is joining", queue=str(host))
