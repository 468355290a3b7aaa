"""Production code broken on purpose, one rule at a time: what a simulation is worth, it finds.

Each is a context manager; while it lasts, the rule does not hold. The first ones break the protocol
of a group, those of `GLUE` the decisions of a node, and what carries them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from warren.cluster.events import LinkDown
from warren.cluster.kept_copies import KeptCopies
from warren.cluster.link.control import Kept, OpenQueue
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.node import ClusterNode
from warren.cluster.relocations import Relocations
from warren.cluster.sessions import Session
from warren.cluster.topology import BrokerTopology
from warren.flow.tenure import Tenure
from warren.metadata.store import Change
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror
from warren.replication.gm.frames import Frame, Payload
from warren.replication.gm.member import GroupMember
from warren.replication.gm.ring_view import RingView
from warren.replication.gm.rounds import Rounds
from warren.replication.group_record import GroupRecord, SessionGone, promote
from warren.replication.replica import Replica
from warren.server.cluster_shell import ClusterShell
from warren.wire.codec import QueuedMessage

Break = Callable[[], AbstractContextManager[object]]


def skip_the_fence() -> AbstractContextManager[object]:
    """Frames are taken from everybody, whatever epoch or view they are of."""

    def take(self: GroupMember, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        if self.record is not None:
            self._take(frame, payloads)

    return patch.object(GroupMember, "_frame_arrived", take)


def skip_the_lease() -> AbstractContextManager[object]:
    """Who led goes on confirming and delivering, whether its session lasts or not."""
    return patch.multiple(
        Tenure, freeze=lambda self: None, holds=lambda self: self.until_s > -math.inf
    )


@contextmanager
def confirm_before_the_last_mirror() -> Iterator[None]:
    """The master waits for all mirrors in sync but one."""

    def hasty(self: Replica) -> None:
        assert self.master is not None
        assert self.record is not None
        wanted = {*self.record.insync, *self._admitting} - {self.me.id}
        self.master.set_in_sync(sorted(wanted)[:-1])

    with patch.object(Replica, "_wait_for_those_in_sync", hasty):
        yield


@contextmanager
def drop_an_alias() -> Iterator[None]:
    """Of the dead that it is heir of, a member forgets one."""
    set_view = Rounds.set_view

    def forget(self: Rounds, view: RingView) -> None:
        set_view(self, view)
        self.aliases = frozenset(sorted(self.aliases)[1:])
        self._mine = self.aliases | {self._me}

    with patch.object(Rounds, "set_view", forget):
        yield


@contextmanager
def promote_an_unsynced_mirror() -> Iterator[None]:
    """The oldest mirror stands for promotion, in sync or not."""

    def stand(self: Replica, record: GroupRecord) -> None:
        if record.find(record.leader) is not None or self._is_proposing:
            return
        eldest = min(record.live, key=lambda member: member.joined_view)
        if eldest.id == self.me.id:
            self._propose(promote(record, self.me.id, is_sync_needed=False), ())

    with patch.object(Replica, "_stand_for_promotion", stand):
        yield


class ForgetfulMaster(MasterBacking):
    """What consumers give back is not offered again."""

    def requeue(self, run: list[QueuedMessage]) -> Any:
        return super().requeue(run[1:])


def forget_a_requeue() -> AbstractContextManager[object]:
    return patch("warren.cluster.queue_moves.MasterBacking", ForgetfulMaster)


def trust_old_marks() -> AbstractContextManager[object]:
    """A copy that comes back takes what it never delivered itself for new, whoever led since."""

    def follow(self: Mirror) -> None:
        self.is_marked = True

    return patch.object(Mirror, "follow", follow)


def stay_behind_a_cut() -> AbstractContextManager[object]:
    """A leader takes every node for one that it reaches, whatever the others say."""
    return patch("warren.replication.reach._reached_by", lambda node, nodes, cuts: set(nodes))


def stay_on_a_full_disk() -> AbstractContextManager[object]:
    """A leader whose disk takes nothing goes on leading."""
    return patch.object(Replica, "refused", lambda self: False)


# A node's decisions, and what carries them out.


def decide_before_the_topology() -> AbstractContextManager[object]:
    """A change of the store reaches the machine before the queues and policies that it is about."""

    def store_changed(self: ClusterShell, changes: Sequence[Change]) -> None:
        apply, self._apply_topology = self._apply_topology, None
        changed(self, changes)
        self._apply_topology = apply
        if apply is not None:
            apply(changes)

    changed = ClusterShell.store_changed
    return patch.object(ClusterShell, "store_changed", store_changed)


def tell_the_end_of_sessions_late() -> AbstractContextManager[object]:
    """Replicas hear that a member's node is gone a quarter of a minute after it is."""
    ended = ClusterNode._session_ended

    def later(self: ClusterNode, session: Session) -> None:
        self._effects.call_later(15_000, lambda: ended(self, session))

    return patch.object(ClusterNode, "_session_ended", later)


@contextmanager
def overlook_a_link() -> Iterator[None]:
    """Copies are not planned again when a link comes up."""
    link_up = ClusterNode._link_up

    def up(self: ClusterNode, node: str) -> None:
        with patch.object(self, "_plan_all", lambda vhost=None: None):
            link_up(self, node)

    with patch.object(ClusterNode, "_link_up", up):
        yield


@contextmanager
def overlook_what_a_mirror_has() -> Iterator[None]:
    """Copies are not planned again when a mirror has told what it has."""
    arrived = ClusterNode._news_arrived

    def news(self: ClusterNode, told: Any) -> None:
        with ExitStack() as stack:
            if isinstance(told, Kept):
                stack.enter_context(patch.object(self, "_plan", lambda name: None))
            arrived(self, told)

    with patch.object(ClusterNode, "_news_arrived", news):
        yield


@contextmanager
def promote_without_the_fence() -> Iterator[None]:
    """A broken link counts as a session's end, and nobody asks the store whether it has ended."""
    changed = ClusterNode._link_changed

    def link_changed(self: ClusterNode, event: Any) -> None:
        changed(self, event)
        session = self.view.sessions.get(event.node)
        if isinstance(event, LinkDown) and session is not None:
            self._session_ended(session)

    async def no_checks(self: ClusterShell, gone: Sequence[SessionGone]) -> list[Any]:
        return []

    with (
        patch.object(ClusterNode, "_link_changed", link_changed),
        patch.object(ClusterShell, "_checks_of", no_checks),
    ):
        yield


def forget_a_relocation() -> AbstractContextManager[object]:
    """A rebalance is begun, and nobody remembers where to."""
    return patch.object(Relocations, "destination_of", lambda self, name: "")


@contextmanager
def place_by_a_stale_policy() -> Iterator[None]:
    """Copies are placed by the policy that a node has seen first."""
    policy_of = BrokerTopology.policy_of

    def stale(self: Any, record: QueueRecord) -> Mapping[str, object]:
        policies = self.__dict__.setdefault("stale", {})
        found: Mapping[str, object] = policies.get(record.name) or policy_of(self, record)
        policies[record.name] = found
        return found

    with patch.object(BrokerTopology, "policy_of", stale):
        yield


def count_publishes_anew() -> AbstractContextManager[object]:
    """A promoted master does not know how far the publishes of other nodes had come."""

    def make_inbox(queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        return LinkPublishes(queue, control.origin)

    return patch("warren.cluster.queue_moves.make_inbox", make_inbox)


def delete_kept_copies() -> AbstractContextManager[object]:
    """A copy that takes no part in its group is deleted, though the group may need it."""
    return patch.object(KeptCopies, "is_recoverable", lambda self, group: False)


def confirm_before_mirrors_are_known() -> AbstractContextManager[object]:
    """A promoted node tells its clients of messages that other mirrors may not have on disk."""
    return patch("warren.cluster.queue_moves._wait_for_mirrors", lambda master, replica: None)


GLUE: Final = (
    decide_before_the_topology,
    tell_the_end_of_sessions_late,
    overlook_a_link,
    overlook_what_a_mirror_has,
    promote_without_the_fence,
    forget_a_relocation,
    place_by_a_stale_policy,
    count_publishes_anew,
    delete_kept_copies,
    confirm_before_mirrors_are_known,
)
BREAKS: Final[dict[str, Break]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        skip_the_fence,
        skip_the_lease,
        confirm_before_the_last_mirror,
        drop_an_alias,
        promote_an_unsynced_mirror,
        forget_a_requeue,
        trust_old_marks,
        stay_behind_a_cut,
        stay_on_a_full_disk,
        *GLUE,
    )
}
