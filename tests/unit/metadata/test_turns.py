from __future__ import annotations

import asyncio
import random

import pytest

from warren.metadata.key_order import Done, KeyOrder


async def test_a_write_waits_for_readers_and_the_writer_before_it() -> None:
    turns = KeyOrder()
    loop = asyncio.get_running_loop()
    first, reader, second = (loop.create_future() for _ in range(3))
    assert turns.take(first, [], ["k"]) == set()
    assert turns.take(reader, ["k"], []) == {first}
    assert turns.take(second, [], ["k"]) == {first, reader}


async def test_readers_of_a_key_do_not_wait_for_each_other() -> None:
    turns = KeyOrder()
    loop = asyncio.get_running_loop()
    assert turns.take(loop.create_future(), ["k"], []) == set()
    assert turns.take(loop.create_future(), ["k"], ["other"]) == set()


async def test_who_is_done_is_waited_for_by_nobody() -> None:
    turns = KeyOrder()
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    turns.take(done, [], ["k"])
    done.set_result(None)
    await asyncio.sleep(0)
    assert turns.take(loop.create_future(), [], ["k"]) == set()


@pytest.mark.parametrize("seed", range(20))
async def test_work_that_shares_a_written_key_is_done_in_the_order_of_the_calls(seed: int) -> None:
    chance, turns, finished = random.Random(seed), KeyOrder(), list[int]()
    calls: list[tuple[set[str], set[str]]] = []

    async def work(number: int, before: set[Done], done: Done) -> None:
        if before:
            await asyncio.wait(before)
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        finished.append(number)
        done.set_result(None)

    tasks = []
    for number in range(40):
        reads = set(chance.sample("abcd", chance.randrange(3)))
        writes = set(chance.sample("abcd", chance.randrange(2)))
        calls.append((reads, writes))
        done = asyncio.get_running_loop().create_future()
        tasks.append(asyncio.create_task(work(number, turns.take(done, reads, writes), done)))
    await asyncio.gather(*tasks)
    for later, (reads, writes) in enumerate(calls):
        for earlier, (old_reads, old_writes) in enumerate(calls[:later]):
            if writes & (old_reads | old_writes) or reads & old_writes:
                assert finished.index(earlier) < finished.index(later), f"seed {seed}"
    assert not turns._lines, "nobody is left standing"
