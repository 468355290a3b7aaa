"""What a mirror's messages look like once it is the master."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from index_world import IndexWorld
from warren.storage.replication import offer_again


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
