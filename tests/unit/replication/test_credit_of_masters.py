"""What mirrors have not got yet waits in memory, and publishers are charged for it."""

from __future__ import annotations

from replica_world import ReplicaWorld, message


def test_what_is_on_its_way_to_mirrors_in_sync_is_charged_until_they_have_it() -> None:
    world = ReplicaWorld()
    world.join("b")
    world.master.set_in_sync(["b"])
    world.deliver()
    assert world.master.credit.bytes_used == 0
    world.master.publish(message(1), 0, None, 0)
    world.deliver()
    assert world.master.credit.bytes_used > 0
    world.replicas["b"].sync()
    assert world.master.credit.bytes_used == 0


def test_a_ring_without_room_keeps_publishers_waiting_though_nobody_is_in_sync() -> None:
    world = ReplicaWorld()
    world.join("b")
    world.master.room_changed(False)
    world.master.publish(message(1), 0, None, 0)
    world.deliver()
    assert world.master.credit.bytes_used > 0
    world.master.room_changed(True)
    assert world.master.credit.bytes_used == 0


def test_a_deposed_master_holds_nobody_up() -> None:
    world = ReplicaWorld()
    world.join("b")
    world.master.set_in_sync(["b"])
    world.master.publish(message(1), 0, None, 0)
    world.end_turn()
    world.master.depose()
    assert world.master.credit.bytes_used == 0
