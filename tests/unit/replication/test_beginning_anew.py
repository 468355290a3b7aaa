"""A mirror that begins anew has nothing of before, counts as the master does, and tells again."""

from __future__ import annotations

from typing import Any

from replica_world import Confirmed, ReplicaWorld, message
from warren.replication.classic.mirror import Mirror
from warren.replication.group_record import Member, add_right_of, create
from warren.replication.replica import Replica

MASTER = Member("n1/life/1", "n1", "life")
MIRROR = Member("n2/life/1", "n2", "life")


def test_a_mirror_of_a_queue_that_has_been_emptied_goes_on_with_its_numbers() -> None:
    """Else the others would think that what it publishes as a master is not for them."""
    world = ReplicaWorld()
    for number in range(3):
        world.master.publish(message(number), 0, None, 0)
        queued = world.master.fetch(True)
        assert queued is not None
        world.master.ack([queued])
    mirror = world.join("b")
    world.deliver()
    assert mirror.levels[0].next_sequence == 3


def test_what_a_mirror_had_from_an_earlier_life_is_another_queue() -> None:
    """The numbers of its messages come again, for others: one index must not have both."""
    world = ReplicaWorld()
    mirror = world.join("b")
    world.deliver()
    world.master.publish(message(1), 0, None, 0)
    world.deliver()
    world.sync_all()
    before = mirror.levels[0]
    deleted: list[int] = []
    before.on_deleted = lambda: deleted.append(0)
    world.master.begin_member("b")
    world.deliver()
    assert deleted == [0]
    assert mirror.levels[0] is not before
    assert mirror.depth == 0


class Host:
    """Of a replica that is never asked for anything here."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def test_a_mirror_tells_again_how_far_it_is_when_its_link_to_the_master_is_back() -> None:
    """What it told before may be lost, and confirms wait for it, for ever if nobody publishes."""
    world = ReplicaWorld()
    told: list[int] = []
    mirror = Mirror(
        MIRROR.id, world.here.level, lambda number, _: told.append(number), lambda: None
    )
    replica = Replica(MIRROR, "uid", Host())
    record = add_right_of(create("uid", MASTER), MASTER.id, MIRROR)
    replica.record_changed(record, 2)
    replica.join(mirror)
    mirror.held = 7
    told.clear()
    replica.link_down("n1")
    replica.link_up("n3")
    assert told == []
    replica.link_up("n1")
    assert told == [7]


def test_a_copy_that_is_behind_holds_nobody_up_twice() -> None:
    """Telling a number again confirms nothing that was not safe."""
    world, publisher = ReplicaWorld(), Confirmed()
    world.join("b")
    world.deliver()
    world.master.set_in_sync(["b"])
    world.master.publish(message(1), 0, publisher, 1)
    world.end_turn()
    world.here.sync()
    world.mirrors["b"].tell_held()
    assert publisher.confirmations == []
    world.deliver()
    world.sync_all()
    world.mirrors["b"].tell_held()
    assert publisher.confirmations == [1]
