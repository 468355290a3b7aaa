"""What a mirror's messages look like once it is the master."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from index_world import IndexWorld
from replica_world import ReplicaIndex, message
from warren.storage.queue.replication import offer_again
from warren.storage.queue.variable_queue import VariableQueue


async def test_what_a_mirror_has_on_disk_only_is_offered_as_redelivered(tmp_path: Path) -> None:
    world = IndexWorld(tmp_path)
    await world.open()
    for _ in range(3):
        world.publish()
    await world.shorten_journal()
    assert not any(queued.redelivered for queued in await world.read())
    copy = SimpleNamespace(index=world.queue(), next_sequence=2)
    offer_again(cast("Any", copy))
    assert [queued.redelivered for queued in await world.read()] == [True, True, False]
    await world.close()


async def test_what_is_published_again_stays_marked_when_it_leaves_memory(tmp_path: Path) -> None:
    world = IndexWorld(tmp_path)
    await world.open()
    queue = VariableQueue(world.queue, True, cast("Any", ReplicaIndex()))
    again = message(1)
    queue.publish(again, 0, None, 0)
    queue.mark_redelivered(again)
    queue.publish(message(2), 0, None, 0)
    await world.shorten_journal()
    assert [queued.redelivered for queued in await world.read()] == [True, False]
    await world.close()
