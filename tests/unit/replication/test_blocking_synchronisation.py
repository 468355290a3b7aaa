"""RabbitMQ's way of synchronising, for whoever wants it: the queue waits meanwhile (5-13)."""

from __future__ import annotations

from replica_world import Confirmed, ReplicaWorld, message
from warren.replication.classic.synchroniser import SyncEvent


class Blocking(ReplicaWorld):
    """Does what a node does of which `warren.mirroring_sync_blocking` is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_sync_blocking = True
        self.publisher = Confirmed()

    def sync_told(self, event: SyncEvent) -> None:
        super().sync_told(event)
        if self.synchroniser.is_syncing:
            self.master.freeze()
        else:
            self.master.thaw()

    def publish(self, *numbers: int) -> None:
        for number in numbers:
            self.master.publish(message(number), 0, self.publisher, number)


def test_5_13_what_is_published_meanwhile_is_confirmed_only_afterwards() -> None:
    world = Blocking()
    world.publish(*range(40))
    world.deliver()
    world.sync_all()
    world.join("b")
    assert world.synchroniser.start()
    world.publish(40)
    assert world.step()
    world.deliver()
    world.sync_all()
    assert world.synchroniser.is_syncing
    assert 40 not in world.publisher.confirmations
    assert world.master.fetch(True) is None, "nor is anything delivered"
    world.finish_sync()
    assert 40 in world.publisher.confirmations
    assert world.master.fetch(True) is not None
    assert len(world.replicas["b"].drained()[0]) == 41


def test_5_13_by_default_it_is_confirmed_while_it_goes_on() -> None:
    world = Blocking()
    world.is_sync_blocking = False
    world.sync_told = lambda event: None  # type: ignore[method-assign]
    world.publish(*range(40))
    world.join("b")
    world.synchroniser.start()
    world.publish(40)
    assert world.step()
    world.deliver()
    world.sync_all()
    assert world.synchroniser.is_syncing
    assert 40 in world.publisher.confirmations
