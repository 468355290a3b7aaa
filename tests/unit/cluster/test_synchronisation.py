"""Synchronisation of a queue's mirrors: what the node that leads it has to say about it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from machine_world import ALL, NAME, MachineWorld
from warren.broker.events import Event
from warren.cluster.actions import SetTimer
from warren.cluster.group_events import GroupEvents
from warren.cluster.synchronisation import Synchronisation, SyncOfNode, SyncTerms
from warren.policy.wanted_copies import mirroring_of
from warren.replication.classic.sync_pace import SyncSettings
from warren.replication.classic.synchroniser import SyncEvent


class Ears:
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def wants(self, name: str) -> bool:
        return name.startswith("warren.sync.")

    def hear(self, event: Event) -> None:
        self.heard.append(event)


@pytest.fixture
def world() -> MachineWorld:
    """Node `a`, which leads a queue with a mirror on `b` that lacks something."""
    world = MachineWorld()
    world.begin("b")
    world.led("b", insync="a")
    return world


def sync_of(
    world: MachineWorld, policy: Mapping[str, object], is_blocking: bool = False
) -> Synchronisation:
    terms = SyncTerms(batch_size=50, bytes_per_s=1_000, is_blocking=is_blocking)
    node = SyncOfNode(terms, world, world.effects, GroupEvents(world.events))
    replica = world.host.replica
    sync = Synchronisation(NAME, replica, lambda: mirroring_of(policy, 50), node)
    sync.begin(replica.master)
    return sync


@pytest.mark.parametrize(
    ("policy", "batch_size"),
    [({}, 50), (ALL, 50), ({**ALL, "ha-sync-batch-size": 7}, 7)],
)
def test_the_batch_size_is_the_policys_or_the_nodes(
    world: MachineWorld, policy: Mapping[str, object], batch_size: int
) -> None:
    """5-08."""
    assert sync_of(world, policy).sync_settings() == SyncSettings(batch_size, 1_000)


def test_a_synchronisation_pauses_while_memory_is_short(world: MachineWorld) -> None:
    """5-18."""
    sync = sync_of(world, ALL)
    assert not sync.is_sync_paused
    world.is_memory_short = True
    assert sync.is_sync_paused


def test_a_synchronisation_tells_the_time_and_waits_by_the_machines_timers(
    world: MachineWorld,
) -> None:
    sync, done = sync_of(world, ALL), []
    assert sync.now_ms() == world.clock.now_ms()
    world.effects.begin()
    sync.call_later(30, lambda: done.append(1))
    (timer,) = world.effects.end()
    assert isinstance(timer, SetTimer)
    assert timer.delay_ms == 30
    world.effects.fire(timer.token)
    assert done == [1]


def test_listeners_and_the_log_hear_of_a_synchronisation(
    world: MachineWorld, caplog: pytest.LogCaptureFixture
) -> None:
    ears = Ears()
    world.events.listeners.append(ears)
    with caplog.at_level(logging.INFO):
        sync_of(world, ALL).sync_told(SyncEvent.STARTED)
        sync_of(world, ALL).caught_up("b/1/1", kept=3, sent=4)
    (event,) = ears.heard
    assert (event.name, event.properties["queue"]) == (
        f"warren.sync.{SyncEvent.STARTED.value}",
        "q",
    )
    assert f"synchronisation: {SyncEvent.STARTED.value}" in caplog.text
    assert "mirror has caught up" in caplog.text


def test_a_queue_that_is_blocked_by_a_synchronisation_goes_on_when_it_has_ended(
    world: MachineWorld,
) -> None:
    """5-13: as RabbitMQ's; only if the configuration wants it."""
    sync, master = sync_of(world, ALL, is_blocking=True), world.host.replica.master
    world.host.replica.block(True)
    assert master.is_frozen
    assert not sync.synchroniser.is_syncing
    sync.sync_told(SyncEvent.COMPLETE)
    assert not master.is_frozen
    assert sync.is_sync_blocking
    assert not sync_of(world, ALL).is_sync_blocking
