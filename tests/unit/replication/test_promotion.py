"""What becomes of publishes whose queue gets another master: docs/REPLICATION.md's table of 3-20.

Real ends of links, a real master and a real mirror; what arrives and what is synced is decided
here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from link_world import LinkWorld, Outcomes
from replica_world import Confirmed, Replica, ReplicaWorld, message
from warren.cluster.queue_moves import make_inbox
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.mirror import Mirror


class Failover:
    """A queue with a master and one mirror, each at its link, and a publisher of a third node."""

    def __init__(self, link: LinkWorld, other: LinkWorld) -> None:
        self.link = link
        self.other = other
        self.world = ReplicaWorld()
        self.disk = Replica()
        self.outcomes = Outcomes()
        self.promoted: MasterBacking | None = None
        self.mirror = Mirror("b", self.disk.level, self._held, lambda: None)

    async def begin(self) -> None:
        for link in (self.link, self.other):
            link.around.make_inbox = make_inbox  # type: ignore[method-assign]
        self.first, self.remote = await self.link.declared()
        self.second, _ = await self.other.declared()
        self.remote.is_mirrored = True
        self.remote.origin = "c/1"
        self.first.backing = self.world.master
        self.world.mirrors["b"] = self.mirror
        self.world.master.begin_member("b")
        self.world.deliver()
        self.world.master.set_in_sync(["b"])
        self.link.asker.open(self.remote)
        self.link.move()

    def _held(self, number: int, is_awaited: bool) -> None:
        if self.promoted is None:
            self.world.master.held("b", number)
        else:
            self.promoted.settle()

    def publish(self, number: int) -> None:
        self.remote.publish(message(number), self.outcomes, number)
        self.link.to_home()

    def tell_mirror(self) -> None:
        self.world.deliver()

    def sync_mirror(self) -> None:
        self.disk.sync()

    def fail_over(self) -> None:
        """Whatever was on its way from the old master is lost with it."""
        self.link.cut()
        level = self.mirror.levels.get(0) or self.disk.level(0)
        self.promoted = MasterBacking(level, "b/1", self.world)
        self.promoted.inherit(self.mirror, 0)
        self.second.backing = self.promoted
        self.remote.move(self.other.asker)
        self.other.move()

    def end_turn(self) -> None:
        self.world.end_turn()
        self.other.move()

    @property
    def answers(self) -> tuple[list[int], list[int]]:
        return self.outcomes.confirms, self.outcomes.refusals

    def left(self) -> list[tuple[int, bool]]:
        found = []
        while (queued := self.second.get()) is not None:
            found.append((int(queued.message.body), queued.redelivered))
        return found


@pytest.fixture
async def failover(tmp_path: Path) -> AsyncIterator[Failover]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with BrokerWorld(tmp_path / "a") as first, BrokerWorld(tmp_path / "b") as second:
        failover = Failover(LinkWorld(first), LinkWorld(second))
        await failover.begin()
        yield failover


async def test_3_20_what_the_mirror_never_heard_of_is_taken_once_and_marked(
    failover: Failover,
) -> None:
    failover.publish(1)
    failover.fail_over()
    failover.end_turn()
    assert failover.answers == ([], []), "it is on its way to the disk"
    failover.sync_mirror()
    failover.end_turn()
    assert failover.answers == ([1], [])
    assert failover.left() == [(1, True)]


async def test_3_20_what_is_published_after_the_promotion_is_new(failover: Failover) -> None:
    failover.fail_over()
    failover.remote.publish(message(1), failover.outcomes, 1)
    failover.end_turn()
    failover.sync_mirror()
    failover.end_turn()
    assert failover.answers == ([1], [])
    assert failover.left() == [(1, False)]


async def test_3_20_what_was_confirmed_is_there_and_not_confirmed_again(failover: Failover) -> None:
    failover.publish(1)
    failover.tell_mirror()
    failover.sync_mirror()
    failover.world.here.sync()
    failover.link.move()
    assert failover.answers == ([1], [])
    failover.fail_over()
    failover.end_turn()
    assert failover.answers == ([1], [])
    assert failover.left() == [(1, True)]


async def test_3_20_and_3_21_what_the_mirror_has_is_not_taken_again_and_confirmed_once_it_is_safe(
    failover: Failover,
) -> None:
    failover.publish(1)
    failover.tell_mirror()
    failover.fail_over()
    failover.end_turn()
    assert failover.answers == ([], []), "the mirror's disk may yet fail"
    failover.sync_mirror()
    failover.end_turn()
    assert failover.answers == ([1], [])
    assert failover.left() == [(1, True)]


async def test_3_20_and_3_21_what_is_safe_with_the_mirror_is_confirmed_at_once(
    failover: Failover,
) -> None:
    """The old master's answer was lost with it."""
    failover.publish(1)
    failover.tell_mirror()
    failover.sync_mirror()
    failover.fail_over()
    assert failover.answers == ([1], [])
    assert failover.left() == [(1, True)]


async def test_3_20_what_nobody_refused_stays_though_its_publisher_has_gone(
    failover: Failover,
) -> None:
    failover.publish(1)
    failover.tell_mirror()
    failover.link.asker.close(failover.remote)
    failover.fail_over()
    failover.sync_mirror()
    failover.end_turn()
    assert failover.answers[0] == [], "nobody is there to be told"
    assert failover.left() == [(1, True)]


async def test_3_20_what_only_the_lost_master_had_is_gone_and_was_not_confirmed(
    failover: Failover,
) -> None:
    failover.publish(1)
    failover.world.here.sync()
    failover.link.move()
    assert failover.answers == ([], [])
    failover.link.asker.close(failover.remote)
    failover.fail_over()
    failover.end_turn()
    assert failover.left() == []


async def test_3_20_many_publishes_in_all_these_states_are_answered_once_each(
    failover: Failover,
) -> None:
    for number in range(1, 10):
        failover.publish(number)
        if number == 3:
            failover.tell_mirror()
            failover.sync_mirror()
            failover.world.here.sync()
            failover.link.move()
        if number == 6:
            failover.tell_mirror()
    assert failover.answers == ([1, 2, 3], [])
    failover.fail_over()
    failover.end_turn()
    failover.sync_mirror()
    failover.end_turn()
    assert failover.answers == (list(range(1, 10)), [])
    assert failover.left() == [(number, True) for number in range(1, 10)]


def test_3_22_publishes_that_wait_for_a_mirror_which_fails_are_confirmed_without_it() -> None:
    """RabbitMQ refuses them, though they are safe with all that are left."""
    world = ReplicaWorld()
    world.join("b")
    world.deliver()
    world.master.set_in_sync(["b"])
    publisher = Confirmed()
    world.master.publish(message(1), 0, publisher, 1)
    world.deliver()
    world.here.sync()
    (queued,) = world.replicas["b"].indexes[0].unsynced
    queued.publisher.rejected(queued.publisher_sequence)
    assert world.failed == ["b"]
    assert publisher.confirmations == [], "until the record says that it does not count any more"
    world.master.set_in_sync([])
    assert (publisher.confirmations, publisher.rejections) == ([1], [])
