"""The protocol broken on purpose, one rule at a time: what a simulation is worth, it finds.

Each is a context manager; while it lasts, the rule does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from cluster_simulation.copy_of_node import SimCopy
from cluster_simulation.node import SimNode
from warren.mirror.frames import Frame, Payload
from warren.mirror.gm import GroupMember
from warren.mirror.gm_rounds import Rounds
from warren.mirror.group_record import GroupRecord, promote
from warren.mirror.master import MasterBacking
from warren.mirror.mirror import Mirror
from warren.mirror.replica import Replica
from warren.mirror.ring_view import RingView
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
    return patch.object(SimNode, "may_act", property(lambda self: self.is_up))


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


@contextmanager
def forget_a_requeue() -> Iterator[None]:
    with patch.object(SimCopy, "master_class", ForgetfulMaster):
        yield


def trust_old_marks() -> AbstractContextManager[object]:
    """A copy that comes back takes what it never delivered itself for new, whoever led since."""

    def follow(self: Mirror) -> None:
        self.is_marked = True

    return patch.object(Mirror, "follow", follow)


def stay_behind_a_cut() -> AbstractContextManager[object]:
    """A leader takes every node for one that it reaches, whatever the others say."""
    return patch("warren.mirror.reach._reached_by", lambda node, nodes, cuts: set(nodes))


def stay_on_a_full_disk() -> AbstractContextManager[object]:
    """A leader whose disk takes nothing goes on leading."""
    return patch.object(Replica, "refused", lambda self: False)


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
    )
}
