"""A mirror holds exactly what its master has, from its boundary on, whatever happens there."""

from __future__ import annotations

import random

import pytest

from replica_world import (
    PERSISTENT,
    TRANSIENT,
    Confirmed,
    ReplicaWorld,
    message,
    with_priority,
)
from warren.queues.boundary import PENDING, TAKEN
from warren.replication.classic.mirror import Mirror
from warren.wire.codec import QueuedMessage

SEEDS = range(60)


def publish(world: ReplicaWorld, *numbers: int) -> None:
    for number in numbers:
        world.master.publish(message(number), 0, None, 0)


def bodies(world: ReplicaWorld, name: str) -> list[int]:
    drained = world.replicas[name].drained()
    return [int(body) for level in sorted(drained, reverse=True) for _, body in drained[level]]


def test_what_is_published_comes_to_the_mirror_in_order() -> None:
    world = ReplicaWorld()
    world.join("b")
    publish(world, 1, 2, 3)
    world.deliver()
    assert bodies(world, "b") == [1, 2, 3]


def test_a_turn_is_one_broadcast() -> None:
    world = ReplicaWorld()
    world.join("b")
    world.deliver()
    publish(world, *range(100))
    world.end_turn()
    assert len(world.sent) == 1


def test_what_was_there_before_the_mirror_is_not_sent_but_counted() -> None:
    world = ReplicaWorld()
    publish(world, 1, 2)
    world.join("b")
    publish(world, 3)
    world.deliver()
    assert world.master.coverages["b"].lacking == 2
    assert not world.complete
    assert bodies(world, "b") == [3]


def test_a_mirror_of_an_empty_queue_lacks_nothing() -> None:
    """5-11."""
    world = ReplicaWorld()
    world.join("b")
    assert world.complete == ["b"]


def test_a_mirror_lacks_nothing_once_all_it_never_had_is_acknowledged() -> None:
    """5-01: delivered is not enough, nor is back in the queue."""
    world = ReplicaWorld()
    publish(world, 1)
    world.join("b")
    publish(world, 2)
    queued = world.master.fetch(True)
    assert queued is not None
    assert not world.complete
    world.master.requeue([queued])
    assert not world.complete
    world.master.ack([world.master.fetch(True)])
    assert world.complete == ["b"]
    world.deliver()
    assert bodies(world, "b") == [2]


def test_a_mirror_is_not_complete_by_number_when_a_younger_message_went_first() -> None:
    """5-19: with priorities the one it knows may leave before the one it does not."""
    world = ReplicaWorld(max_priority=3)
    world.master.publish(with_priority(1, 0), 0, None, 0)
    world.join("b")
    world.master.publish(with_priority(2, 3), 0, None, 0)
    young = world.master.fetch(True)
    assert young is not None
    assert young.message.body == b"2"
    world.master.ack([young])
    assert not world.complete
    world.master.ack([world.master.fetch(True)])
    assert world.complete == ["b"]


def test_acknowledged_out_of_order_is_gone_and_the_rest_stays_in_order() -> None:
    world = ReplicaWorld()
    world.join("b")
    publish(world, *range(10))
    taken = [world.master.fetch(True) for _ in range(5)]
    world.deliver()
    world.master.ack([taken[3]])
    world.master.ack([taken[1]])
    world.deliver()
    assert bodies(world, "b") == [0, 2, 4, 5, 6, 7, 8, 9]


def test_what_clients_had_before_there_were_mirrors_is_told_to_them() -> None:
    world = ReplicaWorld()
    inner = world.here.levels[0]
    for number in range(4):
        inner.publish(message(number), 0, None, 0)
    taken = [inner.fetch(True) for _ in range(2)]
    world.master.adopt_unacked(taken)
    world.join("b")
    assert world.master.coverages["b"].lacking == 4
    world.synchroniser.start()
    world.finish_sync()
    world.master.requeue(taken)
    world.deliver()
    assert bodies(world, "b") == [0, 1, 2, 3]


def test_what_nobody_told_the_master_of_comes_back_at_the_tail_of_all_copies() -> None:
    world = ReplicaWorld()
    inner = world.here.levels[0]
    for number in range(2):
        inner.publish(message(number), 0, None, 0)
    taken = [inner.fetch(True) for _ in range(2)]
    world.join("b")
    publish(world, 2)
    world.master.requeue(taken)
    world.deliver()
    assert bodies(world, "b") == [2, 0, 1]
    assert [int(body) for _, body in world.here.drained()[0]] == [2, 0, 1]


def test_a_purge_leaves_what_clients_have() -> None:
    world = ReplicaWorld()
    world.join("b")
    publish(world, *range(6))
    for _ in range(2):
        world.master.fetch(True)
    assert world.master.purge() == 4
    world.deliver()
    assert bodies(world, "b") == [0, 1]


def test_a_publisher_hears_when_all_in_sync_have_it_on_disk() -> None:
    """3-19."""
    world, publisher = ReplicaWorld(), Confirmed()
    for name in ("b", "c"):
        world.join(name)
    world.master.set_in_sync(["b", "c"])
    assert world.master.publish(message(1), 0, publisher, 7) == PENDING
    world.deliver()
    world.here.sync()
    world.replicas["b"].sync()
    assert publisher.confirmations == []
    world.replicas["c"].sync()
    assert publisher.confirmations == [7]


def test_nobody_waits_for_a_mirror_that_is_not_in_sync() -> None:
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.master.publish(message(1), 0, publisher, 7)
    world.deliver()
    world.here.sync()
    assert publisher.confirmations == [7]


def test_a_mirror_that_leaves_the_set_is_not_waited_for_any_more() -> None:
    """3-23."""
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.master.set_in_sync(["b"])
    world.master.publish(message(1), 0, publisher, 7)
    world.deliver()
    world.here.sync()
    assert publisher.confirmations == []
    world.master.set_in_sync([])
    assert publisher.confirmations == [7]


def test_a_transient_message_is_confirmed_when_mirrors_have_it_in_memory() -> None:
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.master.set_in_sync(["b"])
    assert world.master.publish(message(1, TRANSIENT), 0, publisher, 7) == PENDING
    assert publisher.confirmations == []
    world.deliver()
    assert publisher.confirmations == [7]


def test_a_frozen_master_confirms_and_delivers_nothing_until_it_thaws() -> None:
    world, publisher = ReplicaWorld(), Confirmed()
    world.master.publish(message(1), 0, publisher, 7)
    world.master.freeze()
    world.deliver()
    world.here.sync()
    assert publisher.confirmations == []
    assert world.master.fetch(True) is None
    world.master.thaw()
    assert publisher.confirmations == [7]
    assert world.master.fetch(True) is not None


def test_a_mirror_knows_the_last_number_of_every_origin() -> None:
    """So that what is sent again to a new master is taken once."""

    class Inbox(Confirmed):
        origin = "n2/abc"

    world, inbox = ReplicaWorld(), Inbox()
    world.master.publish(message(1), 0, inbox, 41)
    world.join("b")
    for number in (42, 43):
        world.master.publish(message(number), 0, inbox, number)
    world.master.publish(message(9), 0, Confirmed(), 1000)
    world.deliver()
    assert world.mirrors["b"].numbers == {"n2/abc": 43, "here": 1}


def test_a_deposed_master_names_what_its_own_clients_wait_for_and_settles_nothing() -> None:
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.master.set_in_sync(["b"])
    for number in (1, 2, 3):
        world.master.publish(message(number), 0, publisher, number)
    queued = world.master.fetch(True)
    assert queued is not None
    world.end_turn()
    waiting = world.master.depose()
    assert [(w.number, w.sequence) for w in waiting] == [(1, 1), (2, 2), (3, 3)]
    world.deliver()
    world.sync_all()
    world.master.ack([queued])
    assert publisher.confirmations == []
    assert [body for _, body in world.here.drained()[0]] == [b"1", b"2", b"3"]


def test_a_disk_that_takes_nothing_fails_the_mirror() -> None:
    world = ReplicaWorld()
    world.join("b")
    publish(world, 1)
    world.deliver()
    queued = world.replicas["b"].indexes[0].unsynced[0]
    queued.publisher.rejected(queued.publisher_sequence)
    assert world.failed == ["b"]


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_agree_after_anything(seed: int) -> None:
    """Random work at the master; mirrors join in between, page out or not."""
    random_work = RandomWork(seed)
    for _ in range(200):
        random_work.step()
    random_work.compare()


class RandomWork:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.has_priorities = self.random.random() < 0.3
        self.world = ReplicaWorld(3 if self.has_priorities else None, self.random.random() < 0.5)
        self.held: list[QueuedMessage] = []
        self.published = 0
        self.publisher = Confirmed()
        self.boundaries: dict[str, dict[int, int]] = {}

    def step(self) -> None:
        steps = [
            (self.publish, 8),
            (self.fetch, 4),
            (self.ack, 3),
            (self.requeue, 1),
            (self.drop, 1),
            (self.join, 0.3),
            (self.purge, 0.1),
            (self.world.deliver, 2),
            (self.world.sync_all, 1),
            (self.page, 1),
        ]
        self.random.choices([s for s, _ in steps], [weight for _, weight in steps])[0]()

    def publish(self) -> None:
        self.published += 1
        if self.has_priorities:
            new = with_priority(self.published, self.random.randrange(5))
        else:
            new = message(self.published, self.random.choice([PERSISTENT, TRANSIENT]))
        outcome = self.world.master.publish(new, 0, self.publisher, self.published)
        assert outcome in (TAKEN, PENDING)

    def fetch(self) -> None:
        queued = self.world.master.fetch(True)
        if queued is not None:
            self.held.append(queued)

    def drop(self) -> None:
        self.world.master.fetch(False)

    def ack(self) -> None:
        if self.held:
            self.world.master.ack([self.held.pop(self.random.randrange(len(self.held)))])

    def requeue(self) -> None:
        if self.held:
            self.world.master.requeue([self.held.pop(self.random.randrange(len(self.held)))])

    def purge(self) -> None:
        self.world.master.purge()

    def join(self) -> None:
        if len(self.world.mirrors) < 3:
            name = f"mirror {len(self.world.mirrors)}"
            self.world.join(name)
            self.boundaries[name] = self.world.master.next_sequences()

    def page(self) -> None:
        self.random.choice([self.world.here, *self.world.replicas.values()]).page()

    def compare(self) -> None:
        world = self.world
        self.world.deliver()
        self.world.sync_all()
        assert sorted(self.publisher.confirmations) == list(range(1, self.published + 1))
        world.master.requeue(self.held)
        for replica in (world.here, *world.replicas.values()):
            for index in replica.indexes.values():
                index.finish_reads()
        for name, mirror in world.mirrors.items():
            lacking = world.master.coverages[name].lacking
            assert mirror.depth == world.master.length - lacking, name
            assert mirror.lacking == lacking, name
        at_master = world.here.drained()
        for name in world.mirrors:
            assert world.replicas[name].drained() == self.expected(at_master, name), name

    def expected(
        self, at_master: dict[int, list[tuple[int, bytes]]], name: str
    ) -> dict[int, list[tuple[int, bytes]]]:
        boundary = self.boundaries[name]
        known = {
            level: [entry for entry in entries if entry[0] >= boundary.get(level, 0)]
            for level, entries in at_master.items()
        }
        return {level: entries for level, entries in known.items() if entries}


def test_a_mirror_that_has_not_begun_holds_nothing() -> None:
    world = ReplicaWorld()
    replica_free = Mirror("z", lambda n: pytest.fail("not for it"), lambda *_: None, lambda: None)
    world.mirrors["z"] = replica_free
    publish(world, 1)
    world.deliver()
    assert replica_free.held == world.master.number > 0


def test_what_goes_along_with_the_last_that_a_mirror_lacked_goes_there_too() -> None:
    """The two are no run: one is below its boundary, though nobody minds that any more."""
    world = ReplicaWorld()
    master = world.master
    master.publish(message(1), 0, None, 0)
    mirror = world.join("late")
    master.publish(message(2), 0, None, 0)
    world.deliver()
    world.covered = lambda member: master.set_in_sync({member})
    run = [master.fetch(True), master.fetch(True)]
    master.ack([queued for queued in run if queued is not None])
    world.deliver()
    assert master.in_sync == {"late"}
    assert mirror.depth == 0
