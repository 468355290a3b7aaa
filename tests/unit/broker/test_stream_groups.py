"""Cursors of groups of readers: they go forward, survive, and end with their stream."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from topology_samples import queue
from warren.broker.stream_groups import GroupCursor
from warren.metadata.keys import KeyKind, prefix
from warren.model.errors import SoftError

PLACE = ("/", "stream", "group")


async def set_to(world: BrokerWorld, offset: int, **options: bool) -> int:
    cursor = GroupCursor(offset, options.pop("retain", False))
    return (await world.broker.stream_groups.set(PLACE, cursor, **options)).offset


@pytest.fixture
async def streamed(world: BrokerWorld) -> BrokerWorld:
    await world.vhost.declare_queue(queue("stream"), False, "c")
    return world


async def test_a_cursor_goes_forward_only_unless_it_is_told_to(streamed: BrokerWorld) -> None:
    assert [await set_to(streamed, offset) for offset in (5, 3, 9, 9, 0)] == [5, 5, 9, 9, 9]
    assert await set_to(streamed, 2, may_go_back=True) == 2


async def test_many_who_set_a_cursor_at_once_leave_it_at_the_furthest(
    streamed: BrokerWorld,
) -> None:
    await asyncio.gather(*(set_to(streamed, offset) for offset in (3, 9, 1, 7, 5)))
    assert streamed.broker.stream_groups.of_stream("/", "stream")["group"].offset == 9


async def test_setting_what_is_set_writes_nothing(streamed: BrokerWorld) -> None:
    await set_to(streamed, 5)
    changes: list[object] = []
    streamed.store.watch(changes.extend)
    await set_to(streamed, 5)
    await set_to(streamed, 4)
    assert changes == []


async def test_cursors_survive(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_queue(queue("stream"), False, "c")
        await set_to(world, 7, retain=True)
    async with BrokerWorld(tmp_path) as world:
        cursor = world.broker.stream_groups.of_stream("/", "stream")["group"]
        assert (cursor.offset, cursor.retain) == (7, True)
        assert world.broker.stream_groups.held_from("/", "stream") == 7


async def test_cursors_end_with_their_stream(streamed: BrokerWorld) -> None:
    await set_to(streamed, 7)
    await streamed.vhost.delete_queue("stream", False, False, "c")
    assert streamed.broker.stream_groups.of_stream("/", "stream") == {}
    assert await streamed.store.range(prefix(KeyKind.CURSOR)) == []
    with pytest.raises(SoftError, match="no queue 'stream'"):
        await set_to(streamed, 7)


async def test_cursors_end_with_their_virtual_host(world: BrokerWorld) -> None:
    await world.broker.add_vhost("other")
    await world.broker.vhosts["other"].declare_queue(
        replace(queue("stream"), vhost="other"), False, "c"
    )
    await world.broker.stream_groups.set(("other", "stream", "group"), GroupCursor(1))
    await world.broker.delete_vhost("other")
    assert await world.store.range(prefix(KeyKind.CURSOR)) == []


async def test_what_retention_leaves_is_what_the_slowest_who_asked_has_to_read(
    streamed: BrokerWorld,
) -> None:
    groups = streamed.broker.stream_groups
    await groups.set(("/", "stream", "careless"), GroupCursor(1))
    assert groups.held_from("/", "stream") is None
    await groups.set(("/", "stream", "slow"), GroupCursor(5, retain=True))
    await groups.set(("/", "stream", "quick"), GroupCursor(8, retain=True))
    assert groups.held_from("/", "stream") == 5
    await groups.delete("/", "stream", "slow")
    assert groups.held_from("/", "stream") == 8
