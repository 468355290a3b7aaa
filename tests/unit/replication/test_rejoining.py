"""A mirror that comes back keeps what the master still has, and is sent the rest (P5, 6-10)."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from replica_world import (
    PERSISTENT,
    TRANSIENT,
    Confirmed,
    Replica,
    ReplicaIndex,
    ReplicaWorld,
    message,
    with_priority,
)
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.rejoining import CatchUp, begin_with, common_of
from warren.storage.index.states import JOURNALED, SEGMENTED
from warren.storage.queue.held_numbers import common_runs, count_between, held_runs
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import QueuedMessage


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.storage.queue.collecting_newer.PIECE_MESSAGES_MAX", 7)


Content = dict[tuple[int, int], bytes]
"""By level and number."""


def test_runs_are_compared_as_sets() -> None:
    assert common_runs([(0, 5), (10, 5)], [(3, 9), (13, 1)]) == [(3, 2), (10, 2), (13, 1)]
    assert common_runs([(0, 2)], [(2, 2)]) == []
    assert count_between([(0, 5), (10, 5)], 3, 12) == 4


def test_a_copy_that_lost_what_the_master_has_is_not_kept() -> None:
    assert common_of([(0, 10)], [(0, 4), (5, 5)], 0, 10) is None
    assert common_of([(0, 10)], [(4, 4)], 0, 8) is None
    assert common_of([(0, 10)], [(4, 4)], 4, 8) == [(4, 4)], "it has never had those before"
    assert common_of([(0, 10)], [(4, 4)], 3, 8) is None, "it may have had the one before"
    assert common_of([(4, 10)], [(0, 8)], 0, 8) == [(4, 4)]
    assert common_of([(4, 10)], [(0, 8)], 0, 9) is None, "it may have had the one after"
    assert common_of([(20, 5)], [(0, 10)], 0, 10) == []


class Rejoining(ReplicaWorld):
    """Mirrors die and come back with what their disks have."""

    def kill(self, name: str) -> None:
        self.deliver()  # for whoever has the name next it is not
        del self.mirrors[name]
        self.master.forget_member(name)

    def come_back(self, name: str, journaled: int = 0) -> int:
        """So many of the newest are still in the journal; says how many were kept."""
        before = self.replicas[name]
        replica = self.replicas[name] = Replica(self.is_lazy)
        for number, index in before.indexes.items():
            recover(replica, number, index, journaled)
        mirror = Mirror(
            name,
            replica.level,
            lambda held, _: self.master.held(name, held),
            lambda: self.failed.append(name),
        )
        mirror.adopt(replica.levels)
        mirror.follow()
        self.mirrors[name] = mirror
        return begin_with(self.master, name, mirror.report_retained())

    def finish(self) -> None:
        """Until everybody has what the master has."""
        for _ in range(10_000):
            self.deliver()
            self.sync_all()
            self.synchroniser.consider(is_automatic=True)
            if not self.step() and all(c.is_complete for c in self.master.coverages.values()):
                return
        raise AssertionError("some never have everything")

    def check(self) -> None:
        """Each mirror has exactly the master's messages from its boundary on, as far as it is."""
        self.deliver()
        whole = content_of(self.master.level_queues().items())
        for (level, sequence), queued in self.master.unacked.items():
            whole[(level, sequence)] = queued.message.body
        for name, mirror in self.mirrors.items():
            coverage = self.master.coverages[name]
            if not coverage.is_complete:
                assert (mirror.boundary, mirror.upto) == (coverage.boundary, coverage.upto)
            expected = {at: body for at, body in whole.items() if is_within(at, mirror)}
            assert content_of(mirror.levels.items()) == expected, name
            lacking = [at for at in whole if at[1] < coverage.boundary.get(at[0], 0)]
            assert coverage.lacking == len(lacking)


def recover(replica: Replica, number: int, old: ReplicaIndex, journaled: int) -> None:
    queue = replica.level(number)
    index = replica.indexes[number]
    index.used = old.used - {queued.sequence for queued in old.unsynced}
    synced = [q for _, q in sorted(old.live.items()) if q not in old.unsynced]
    kept = [copy_of(q) for q in synced if q.message.properties.persistent]
    cut = max(0, len(kept) - journaled)
    for queued in kept:
        index.live[queued.sequence] = queued
        queued.state = SEGMENTED
    if cut:
        size = sum(queued.size for queued in kept[:cut])
        # As after a real start: up to the end of a segment.
        newer = kept[cut].sequence if cut < len(kept) else kept[-1].sequence + 1_000
        queue.recover(kept[0].sequence, newer, cut, size)
    for queued in kept[cut:]:
        queued.state = JOURNALED
    queue.recover_recent(kept[cut:], queue.next_sequence + 5_000)
    queue.next_sequence = max(index.used, default=-1) + 1
    queue.begins_at = min(index.used, default=0)


def copy_of(queued: QueuedMessage) -> QueuedMessage:
    copy = QueuedMessage(queued.message, queued.sequence, queued.expires_at_ms)
    copy.size = queued.size
    return copy


def content_of(levels: Iterable[tuple[int, VariableQueue]]) -> Content:
    content: Content = {}
    for number, queue in levels:
        returned = [queued for _, queued in queue.returned]
        in_memory = (*returned, *queue.front, *queue.leaving, *queue.back)
        bodies = {} if queue.index is None else dict(queue.index.live)
        bodies.update({queued.sequence: queued for queued in in_memory})
        for first, count in held_runs(queue):
            for sequence in range(first, first + count):
                content[(number, sequence)] = bytes(bodies[sequence].message.body)
        assert sum(at[0] == number for at in content) == queue.length
    return content


def is_within(at: tuple[int, int], mirror: Mirror) -> bool:
    level, sequence = at
    assert mirror.boundary is not None
    is_newer = mirror.upto is not None and sequence >= mirror.upto.get(level, 0)
    return sequence >= mirror.boundary.get(level, 0) and not is_newer


def publish(world: Rejoining, *numbers: int) -> None:
    for number in numbers:
        world.master.publish(message(number), 0, Confirmed(), number + 1)


def take(world: Rejoining, count: int) -> None:
    """Deliver and acknowledge."""
    for _ in range(count):
        queued = world.master.fetch(True)
        assert queued is not None
        world.master.ack([queued])


def synced(world: Rejoining, name: str, *numbers: int) -> None:
    world.join(name)
    publish(world, *numbers)
    world.deliver()
    world.sync_all()


@pytest.mark.parametrize("journaled", [0, 3, 100])
def test_only_the_difference_travels(journaled: int) -> None:
    world = Rejoining()
    synced(world, "b", *range(20))
    world.kill("b")
    publish(world, *range(20, 25))
    take(world, 4)
    assert world.come_back("b", journaled) == 16
    world.check()
    world.finish()
    assert world.caught == {"b": (16, 5)}
    world.check()
    order = [body for _, body in world.replicas["b"].drained()[0]]
    assert order == [b"%d" % number for number in range(4, 25)]


def test_what_happens_meanwhile_is_not_missed() -> None:
    world = Rejoining()
    synced(world, "b", *range(20))
    world.kill("b")
    publish(world, *range(20, 120))
    world.come_back("b", 5)
    world.check()
    for number in range(120, 160):
        publish(world, number)
        take(world, 1)
        world.check()
        world.sync_all()
        world.synchroniser.wake()
        world.step()
    world.finish()
    world.check()
    assert "b" in world.caught


def test_a_purge_while_it_catches_up() -> None:
    world = Rejoining()
    synced(world, "b", *range(20))
    world.kill("b")
    publish(world, *range(20, 120))
    world.come_back("b")
    world.synchroniser.wake()
    world.step()
    assert world.master.fetch(True) is not None
    world.master.purge()
    publish(world, 3_000)
    world.check()
    world.finish()
    world.check()


def test_6_10_a_mirror_that_lost_something_in_between_begins_empty() -> None:
    world = Rejoining()
    world.join("b")
    for number in range(10):
        properties = TRANSIENT if number == 5 else PERSISTENT
        world.master.publish(message(number, properties), 0, Confirmed(), number + 1)
    world.deliver()
    world.sync_all()
    world.kill("b")
    assert world.come_back("b") == 0
    world.check()
    assert world.mirrors["b"].depth == 0
    world.finish()
    world.check()


def test_messages_of_a_master_that_nobody_heard_are_dropped() -> None:
    world = Rejoining()
    synced(world, "b", *range(5))
    index = world.replicas["b"].indexes[0]
    index.publish(QueuedMessage(message(99), 5, 0))
    index.sync()
    world.kill("b")
    world.master.inner.next_sequence = 1 << 42
    publish(world, 5, 6)
    assert world.come_back("b") == 5
    world.check()
    world.finish()
    world.check()


def test_one_that_never_catches_up_begins_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warren.replication.classic.rejoining.SPARE_MESSAGES", 0)
    world = Rejoining()
    synced(world, "b", *range(5))
    world.kill("b")
    publish(world, 5)
    world.come_back("b")
    catch_up = CatchUp(world.master, world)
    number = 6
    for _ in range(20):
        publish(world, *range(number, number + 20))
        number += 20
        catch_up.wake()
        world.step()
        world.check()
        world.sync_all()
    assert world.mirrors["b"].boundary == {0: world.mirrors["b"].boundary[0]}
    assert world.caught == {}
    world.finish()
    world.check()


def act(world: Rejoining, dice: random.Random, number: int, has_levels: bool) -> None:
    what = dice.random()
    if what < 0.45:
        properties = TRANSIENT if dice.random() < world.transient_share else PERSISTENT
        it = with_priority(number, dice.randrange(3)) if has_levels else message(number, properties)
        world.master.publish(it, 0, Confirmed(), number + 1)
    elif what < 0.65:
        world.master.fetch(True)
    elif what < 0.82 and world.master.unacked:
        unacked = list(world.master.unacked.values())
        some = unacked[: dice.randint(1, 3)] if dice.random() < 0.8 else [dice.choice(unacked)]
        (world.master.ack if dice.random() < 0.8 else world.master.requeue)(some)
    elif what < 0.825:
        world.master.purge()
    elif what < 0.9:
        world.sync_all()
    elif what < 0.93:
        world.here.page()
        for replica in world.replicas.values():
            replica.page()
    else:
        world.step()
        world.synchroniser.consider(is_automatic=dice.random() < 0.5)


@pytest.mark.parametrize("seed", range(60))
def test_copies_stay_exact_whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    has_levels = seed % 5 == 0
    world = Rejoining(max_priority=2 if has_levels else None, is_lazy=seed % 3 == 0)
    world.transient_share = 0.02 if seed % 4 == 0 else 0.0
    world.join("b")
    world.join("c")
    for number in range(400):
        act(world, dice, number, has_levels)
        if dice.random() < 0.03:
            name = dice.choice("bc")
            if name in world.mirrors:
                world.kill(name)
            else:
                world.come_back(name, dice.randrange(30))
        if dice.random() < 0.3:
            world.check()
    for name in {"b", "c"} - world.mirrors.keys():
        world.come_back(name, dice.randrange(30))
    world.check()
    world.finish()
    world.check()
    for name in "bc":
        assert world.replicas[name].drained() == drained(world)


def drained(world: Rejoining) -> dict[int, list[tuple[int, bytes]]]:
    """What a new master would deliver, in order."""
    whole = content_of(world.master.level_queues().items())
    for at, queued in world.master.unacked.items():
        whole[at] = queued.message.body
    levels = sorted({level for level, _ in whole})
    return {n: sorted((s, body) for (at, s), body in whole.items() if at == n) for n in levels}


def test_a_mirror_that_was_not_synchronised_keeps_what_it_has_and_lacks_no_more() -> None:
    """6-10: again and again; and it is synchronised from where it began."""
    world = Rejoining()
    publish(world, *range(10))
    synced(world, "b", *range(10, 15))
    for number in range(15, 18):
        world.kill("b")
        publish(world, number)
        assert world.come_back("b") == number - 10
        world.check()
        while world.synchroniser.wake() or world.step():
            world.check()
            world.sync_all()
        assert (world.master.coverages["b"].lacking, world.mirrors["b"].lacking) == (10, 10)
    take(world, 4)
    world.check()
    assert world.mirrors["b"].lacking == 6
    world.finish()
    world.check()
    assert world.mirrors["b"].depth == 14


def test_a_mirror_that_stops_half_synchronised_goes_on_from_there() -> None:
    world = Rejoining()
    publish(world, *range(300))
    synced(world, "b", 300, 301)
    world.synchroniser.start()
    for _ in range(20):
        world.step()
        world.deliver()
        world.sync_all()
    lacking = world.master.coverages["b"].lacking
    assert 0 < lacking < 300
    world.synchroniser.cancel()
    world.kill("b")
    world.come_back("b")
    assert world.master.coverages["b"].lacking == lacking
    world.synchroniser.start()
    world.finish()
    world.check()


def test_what_nobody_else_heard_to_be_removed_is_not_taken_for_a_boundary() -> None:
    """Its disk has heard of the number, so the message cannot be sent to it again."""
    world = Rejoining()
    synced(world, "b", *range(10))
    index = world.replicas["b"].indexes[0]
    index.ack([index.live[0]])
    world.kill("b")
    assert world.come_back("b") == 0
    world.check()
