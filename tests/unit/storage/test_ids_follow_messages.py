"""The ids that a queue remembers are never safe before the messages they came with."""

from __future__ import annotations

from pathlib import Path

from index_world import IndexWorld
from warren.queues.id_keeping import IDS_LEVEL
from warren.storage.index.batches import BATCH_BYTES
from warren.storage.vhost_storage import level_name

BODY = bytes(4_000)
MESSAGES = 2 * BATCH_BYTES // len(BODY)
AN_ID = 1_000_000


async def test_an_id_waits_for_messages_that_a_batch_leaves_over(tmp_path: Path) -> None:
    """Though its own queue was the first to have something to write."""
    world = IndexWorld(tmp_path)
    await world.open()
    ids, messages = level_name("q", IDS_LEVEL), level_name("q", 0)
    an_id = world.publish(ids)
    an_id.publisher_sequence = AN_ID
    for _ in range(MESSAGES):
        world.publish(messages, BODY)
    await world.index.flush()
    assert world.index.commits > 1, "they did not fit into one batch"
    assert world.publisher.told == [*range(MESSAGES), AN_ID]
    await world.close()
