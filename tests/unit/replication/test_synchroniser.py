"""A mirror is given what was there before it, newest first, while everything goes on."""

from __future__ import annotations

import random

import pytest

from replica_world import PERSISTENT, TRANSIENT, ReplicaWorld, message, with_priority
from warren.replication.classic.instructions import Older, decode
from warren.replication.classic.sync_pace import SyncSettings
from warren.replication.classic.synchroniser import UNDER_WAY_MAX, SyncEvent
from warren.wire.codec import QueuedMessage

SEEDS = range(120)


def publish(world: ReplicaWorld, *numbers: int) -> None:
    for number in numbers:
        world.master.publish(message(number), 0, None, 0)


def take(world: ReplicaWorld) -> QueuedMessage:
    queued = world.master.fetch(True)
    assert queued is not None
    return queued


def bodies(world: ReplicaWorld, name: str) -> list[int]:
    drained = world.replicas[name].drained()
    return [int(body) for level in sorted(drained, reverse=True) for _, body in drained[level]]


def older_sent(world: ReplicaWorld) -> list[Older]:
    decoded = [decode(payload)[1] for payload in world.sent]
    return [instruction for instruction in decoded if isinstance(instruction, Older)]


def test_a_mirror_gets_what_was_there_before_it() -> None:
    """5-03."""
    world = ReplicaWorld()
    publish(world, *range(23))
    world.join("b")
    publish(world, 23, 24)
    assert world.synchroniser.start()
    world.finish_sync()
    assert world.complete == ["b"]
    assert bodies(world, "b") == list(range(25))


def test_what_clients_have_is_sent_too() -> None:
    """5-03, 5-07: some unacknowledged before the mirror comes, some after; one of them back."""
    world = ReplicaWorld()
    publish(world, *range(12))
    before = [take(world) for _ in range(3)]
    world.master.requeue([before[1]])
    world.join("b")
    after = [take(world) for _ in range(3)]
    world.synchroniser.start()
    world.finish_sync()
    world.master.requeue([before[0], before[2], *after])
    world.deliver()
    assert bodies(world, "b") == list(range(12))


def test_no_mirror_lacks_anything_so_there_is_nothing_to_do() -> None:
    """5-03: a synchronisation of what is in sync is none."""
    world = ReplicaWorld()
    world.join("b")
    publish(world, 1)
    assert not world.synchroniser.start()
    assert not world.synchroniser.is_syncing


def test_batches_go_down_from_the_boundary_without_a_gap() -> None:
    world = ReplicaWorld()
    publish(world, *range(12))
    world.join("b")
    world.synchroniser.start()
    while world.step():
        pass
    sent = older_sent(world)
    assert [(older.boundary, older.below) for older in sent] == [(7, 12), (2, 7), (0, 2)]
    assert sent[0].sequences == (11, 10, 9, 8, 7)


def test_what_leaves_meanwhile_is_passed_over() -> None:
    world = ReplicaWorld()
    publish(world, *range(12))
    taken = [take(world) for _ in range(12)]
    world.join("b")
    world.synchroniser.start()
    world.step()
    world.step()  # a piece is at hand, and its first batch is out
    world.master.ack([taken[3], taken[9]])
    world.finish_sync()
    assert bodies(world, "b") == [0, 1, 2, 4, 5, 6, 7, 8, 10, 11]


def test_a_purge_in_between_leaves_nothing_that_the_master_has_not() -> None:
    world = ReplicaWorld()
    publish(world, *range(20))
    held = [take(world) for _ in range(2)]
    world.join("b")
    world.synchroniser.start()
    world.step()
    world.step()
    world.master.purge()
    publish(world, 20)
    world.finish_sync()
    assert world.complete == ["b"]
    world.master.requeue(held)
    world.deliver()
    assert bodies(world, "b") == [0, 1, 20]


def test_mirrors_with_different_boundaries_are_joined_where_they_meet() -> None:
    world = ReplicaWorld()
    publish(world, *range(8))
    world.join("b")
    publish(world, *range(8, 16))
    world.join("c")
    world.synchroniser.start()
    while world.step():
        pass
    spans = [(older.boundary, older.below) for older in older_sent(world)]
    assert spans == [(11, 16), (8, 11), (3, 8), (0, 3)]
    world.finish_sync()
    assert sorted(world.complete) == ["b", "c"]
    assert bodies(world, "b") == bodies(world, "c") == list(range(16))


def test_a_mirror_that_comes_in_between_is_synchronised_as_well() -> None:
    world = ReplicaWorld()
    publish(world, *range(30))
    world.join("b")
    world.synchroniser.start()
    for _ in range(4):
        world.step()
    publish(world, 30, 31)
    world.join("c")
    world.finish_sync()
    assert bodies(world, "b") == bodies(world, "c") == list(range(32))


def test_one_of_two_mirrors_goes_and_the_other_is_synchronised() -> None:
    """5-14."""
    world = ReplicaWorld()
    publish(world, *range(200))
    for name in "bc":
        world.join(name)
    world.synchroniser.start()
    while world.step():
        pass
    assert world.synchroniser.is_syncing
    del world.mirrors["c"]
    world.master.forget_member("c")
    world.finish_sync()
    assert world.complete == ["b"]
    assert bodies(world, "b") == list(range(200))


def test_all_mirrors_go_and_the_synchronisation_ends() -> None:
    world = ReplicaWorld()
    publish(world, *range(30))
    world.join("b")
    world.synchroniser.start()
    world.step()
    world.master.forget_member("b")
    world.finish_sync()
    assert not world.synchroniser.is_syncing


def test_cancelled_it_goes_on_where_it_was() -> None:
    """5-04, and resumable: what the mirror has got it keeps."""
    world = ReplicaWorld()
    publish(world, *range(20))
    world.join("b")
    assert not world.synchroniser.cancel(), "nothing is under way"
    world.synchroniser.start()
    for _ in range(3):
        world.step()
    assert world.synchroniser.cancel()
    assert not world.synchroniser.is_syncing
    assert not world.synchroniser.cancel()
    world.finish_sync()
    lacking = world.master.coverages["b"].lacking
    assert 0 < lacking < 20
    assert not world.complete
    world.synchroniser.start()
    world.finish_sync()
    assert world.synchroniser.sent_count == lacking
    assert bodies(world, "b") == list(range(20))


def test_a_cancelled_mirror_is_synchronised_by_consuming() -> None:
    """5-17."""
    world = ReplicaWorld()
    publish(world, *range(20))
    world.join("b")
    world.synchroniser.start()
    for _ in range(3):
        world.step()
    world.synchroniser.cancel()
    for _ in range(20):
        world.master.ack([take(world)])
    assert world.complete == ["b"]
    publish(world, 20)
    world.deliver()
    assert bodies(world, "b") == [20]


def test_automatic_begins_by_itself_but_not_again_after_it_was_cancelled() -> None:
    """5-05, 5-06."""
    world = ReplicaWorld()
    publish(world, *range(20))
    world.join("b")
    world.synchroniser.consider(is_automatic=False)
    assert not world.synchroniser.is_syncing
    world.synchroniser.consider(is_automatic=True)
    assert world.synchroniser.is_syncing
    world.synchroniser.cancel()
    world.synchroniser.consider(is_automatic=True)
    assert not world.synchroniser.is_syncing
    world.join("c")
    world.synchroniser.consider(is_automatic=True)
    world.finish_sync()
    assert sorted(world.complete) == ["b", "c"]


def test_progress_is_counted_and_told_once_a_second() -> None:
    """5-12."""
    world = ReplicaWorld()
    publish(world, *range(100))
    world.join("b")
    world.synchroniser.start()
    counts = [world.synchroniser.sent_count]
    while world.synchroniser.is_syncing:
        world.time_ms += 100
        world.deliver()
        world.sync_all()
        world.synchroniser.wake()
        world.step()
        counts.append(world.synchroniser.sent_count)
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == 100
    progress = world.told.count(SyncEvent.PROGRESS)
    assert 1 <= progress <= world.time_ms // 1_000
    assert world.told[0] is SyncEvent.STARTED
    assert world.told[-1] is SyncEvent.COMPLETE


def test_no_more_is_under_way_than_mirrors_can_take() -> None:
    world = ReplicaWorld()
    publish(world, *range(200))
    world.join("b")
    world.deliver()
    world.sync_all()
    world.synchroniser.start()
    while world.step():
        pass
    assert len(older_sent(world)) == UNDER_WAY_MAX
    world.deliver()
    world.synchroniser.wake()
    world.step()
    assert not older_sent(world), "the mirror has it, but its disk has not"
    world.sync_all()
    world.synchroniser.wake()
    world.step()
    assert len(older_sent(world)) == 1


def test_short_memory_pauses_it() -> None:
    """5-18."""
    world = ReplicaWorld()
    publish(world, *range(20))
    world.join("b")
    world.synchroniser.start()
    world.is_sync_paused = True
    while world.step():
        pass
    assert not older_sent(world)
    assert world.synchroniser.is_syncing
    world.is_sync_paused = False
    world.finish_sync()
    assert bodies(world, "b") == list(range(20))


def test_no_faster_than_the_limit() -> None:
    """Two bytes a message: with ten bytes a second a batch of five is what goes in one."""
    world = ReplicaWorld()
    world.settings = SyncSettings(batch_size=5, bytes_per_s=10)
    publish(world, *range(10, 40))
    world.join("b")
    world.synchroniser.start()
    for _ in range(5_000):
        if not world.synchroniser.is_syncing:
            break
        world.deliver()
        world.sync_all()
        world.step()
        world.time_ms += 10
    assert not world.synchroniser.is_syncing
    assert 5_000 <= world.time_ms <= 7_000


def test_half_synchronised_is_not_in_sync() -> None:
    """5-15: the boundary says what the mirror holds, without a hole."""
    world = ReplicaWorld()
    publish(world, *range(20))
    world.join("b")
    world.synchroniser.start()
    for _ in range(3):
        world.step()
    world.deliver()
    assert not world.complete
    boundary = world.mirrors["b"].boundary
    assert boundary == world.master.coverages["b"].boundary
    assert bodies(world, "b") == list(range(boundary[0], 20))


def test_every_priority_is_sent() -> None:
    world = ReplicaWorld(max_priority=3)
    for number in range(20):
        world.master.publish(with_priority(number, number % 4), 0, None, 0)
    world.join("b")
    world.synchroniser.start()
    world.finish_sync()
    assert world.complete == ["b"]
    assert sorted(bodies(world, "b")) == list(range(20))


def test_a_mirror_that_has_only_what_it_was_sent_goes_on_with_the_next_number() -> None:
    world = ReplicaWorld()
    publish(world, *range(3))
    world.join("b")
    world.synchroniser.start()
    world.finish_sync()
    assert world.replicas["b"].levels[0].next_sequence == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_agree_whatever_happens_meanwhile(seed: int) -> None:
    work = RandomWork(seed)
    for _ in range(300):
        work.step()
    work.compare()


class RandomWork:
    """Publishing, consuming, purging, paging, and mirrors that come, with a sync all the time."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.has_priorities = self.random.random() < 0.3
        self.world = ReplicaWorld(3 if self.has_priorities else None, self.random.random() < 0.5)
        self.held: list[QueuedMessage] = []
        self.published = 0
        if self.random.random() < 0.6:
            self.world.master.set_lazy(True)
        for _ in range(self.random.randrange(100)):
            self.publish()

    def step(self) -> None:
        world = self.world
        steps = [
            (self.publish, 6),
            (self.take, 4),
            (self.ack, 3),
            (self.requeue, 1),
            (lambda: world.master.fetch(False), 1),
            (self.join, 0.3),
            (world.master.purge, 0.05),
            (world.deliver, 2),
            (world.sync_all, 1),
            (self.page, 1),
            (world.step, 6),
            (world.synchroniser.start, 1),
            (world.synchroniser.wake, 2),
            (world.synchroniser.cancel, 0.1),
        ]
        self.random.choices([s for s, _ in steps], [weight for _, weight in steps])[0]()

    def publish(self) -> None:
        self.published += 1
        if self.has_priorities:
            new = with_priority(self.published, self.random.randrange(5))
        else:
            new = message(self.published, self.random.choice([PERSISTENT, TRANSIENT]))
        self.world.master.publish(new, 0, None, 0)

    def take(self) -> None:
        queued = self.world.master.fetch(True)
        if queued is not None:
            self.held.append(queued)

    def ack(self) -> None:
        if self.held:
            self.world.master.ack([self.held.pop(self.random.randrange(len(self.held)))])

    def requeue(self) -> None:
        if self.held:
            self.world.master.requeue([self.held.pop(self.random.randrange(len(self.held)))])

    def join(self) -> None:
        if len(self.world.mirrors) < 3:
            self.world.join(f"mirror {len(self.world.mirrors)}")

    def page(self) -> None:
        self.random.choice([self.world.here, *self.world.replicas.values()]).page()

    def compare(self) -> None:
        world = self.world
        if not world.mirrors:
            world.join("mirror 0")
        world.synchroniser.start()
        world.finish_sync()
        assert {*world.complete} == {*world.mirrors}
        world.master.requeue(self.held)
        for replica in (world.here, *world.replicas.values()):
            for index in replica.indexes.values():
                index.finish_reads()
        at_master = world.here.drained()
        for name in world.mirrors:
            assert world.replicas[name].drained() == at_master, name
