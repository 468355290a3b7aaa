from __future__ import annotations

import asyncio

from warren.cluster.topology_barrier import TopologyBarrier


def revisions() -> TopologyBarrier:
    return TopologyBarrier(asyncio.get_running_loop().create_future)


async def is_waiting(task: asyncio.Task[None]) -> bool:
    for _ in range(3):
        await asyncio.sleep(0)
    return not task.done()


async def test_alone_nobody_is_waited_for() -> None:
    await revisions().wait(1_000)


async def test_everybody_is_waited_for() -> None:
    applied = revisions()
    for node in "ab":
        applied.joined(node)
    waiting = asyncio.create_task(applied.wait(5))
    applied.heard("a", 7)
    assert await is_waiting(waiting)
    assert applied.behind(5) == ["b"]
    applied.heard("b", 4)
    assert await is_waiting(waiting)
    applied.heard("b", 5)
    await asyncio.wait_for(waiting, 60)


async def test_who_leaves_is_no_longer_waited_for() -> None:
    applied = revisions()
    applied.joined("a")
    waiting = asyncio.create_task(applied.wait(5))
    assert await is_waiting(waiting)
    applied.left("a")
    await asyncio.wait_for(waiting, 60)


async def test_what_is_heard_late_takes_nothing_back() -> None:
    applied = revisions()
    applied.joined("a")
    applied.heard("a", 9)
    applied.heard("a", 3)
    assert applied.behind(9) == []


async def test_a_node_without_a_session_does_not_count() -> None:
    applied = revisions()
    applied.heard("a", 1)
    assert applied.behind(5) == []


async def test_who_leaves_the_cluster_waits_for_nobody() -> None:
    applied = revisions()
    applied.joined("a")
    waiting = asyncio.ensure_future(applied.wait(5))
    await asyncio.sleep(0)
    applied.stop_waiting()
    await asyncio.wait_for(waiting, 10)
