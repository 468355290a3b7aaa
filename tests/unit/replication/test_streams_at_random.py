"""Copies of a stream come, go and lead, in any order: what readers saw stays as it was."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from stream_copies_world import Copy, StreamCopies
from warren.streams.limits import Limits

STEPS = 40


class Life(StreamCopies):
    """With at least one mirror in sync whenever the master dies."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory)
        self.random = random.Random(seed)
        self.names = 0
        self.away: list[Copy] = []
        self.seen: dict[int, bytes] = {}

    async def step(self) -> None:
        choices = [self.publish_some, self.publish_some, self.turn, self.settle]
        if len(self.copies) < 2:
            choices += [self.come]
        if self.counted_on:
            choices += [self.lose_master, self.lose_mirror]
        await self.random.choice(choices)()
        self.look()

    async def publish_some(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.publish(b"%d" % (self.published + 1))
        await self.turn()

    async def turn(self) -> None:
        for _ in range(self.random.randint(0, 3)):
            await asyncio.sleep(0.001)
            self.deliver()

    async def settle(self) -> None:
        await self.until(lambda: not self.sent and not self.steps)

    async def come(self) -> None:
        self.names += 1
        copy = None
        if self.away:
            copy = self.away.pop(0)
        await self.join(f"m{self.names}", copy)
        await self.turn()

    async def lose_mirror(self) -> None:
        name = self.random.choice(self.counted_on)
        self.away.append(self.copies.pop(name))
        self.master.set_in_sync(self.master.in_sync - {name})
        self.master.forget_member(name)

    async def lose_master(self) -> None:
        """What of its last words was heard, was heard by all."""
        heard = self.sent[: self.random.randint(0, len(self.sent))]
        self.sent = heard
        self.steps.clear()
        self.deliver()
        self.sent.clear()
        self.steps.clear()
        in_sync = frozenset(self.counted_on)
        self.master.depose()
        self.away.append(self.here)
        name = self.random.choice(sorted(in_sync))
        copy = self.copies.pop(name)
        mirror = copy.mirror
        self.lead(copy)
        self.master.inherit(mirror, 0)
        self.master.set_in_sync(in_sync - {name})
        for other, each in self.copies.items():
            if other in in_sync:
                each.mirror.tell_held()
            else:
                self.begin_with(other)

    def look(self) -> None:
        """What is to be seen is with all in sync, and the same whenever and wherever it is."""
        in_sync = [self.copies[name] for name in self.counted_on]
        for copy in (self.here, *in_sync):
            end = copy.log.end_offset
            assert all(each.log.written_end >= end for each in (self.here, *in_sync))
            for offset, body in copy.records():
                if offset < end:
                    assert self.seen.setdefault(offset, body) == body


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_seen_and_confirmed_is_there_once(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    await life.begin()
    life.here.log.limits = Limits(segment_bytes=1_000)
    await life.join_in_sync("m0")
    for _ in range(STEPS):
        await life.step()
    last = life.publish(b"last")
    await life.until(lambda: last in life.confirmed)
    life.look()
    assert dict(life.here.records()) == life.seen
    bodies = [life.seen[offset] for offset in range(life.here.log.end_offset)]
    confirmed = [b"%d" % number for number in life.confirmed[:-1]]
    assert [body for body in bodies if body in set(confirmed)] == confirmed
    for name in sorted(life.master.in_sync):
        copy = life.copies[name]
        await life.until(lambda copy=copy: copy.log.written_end == life.here.log.next_offset)  # type: ignore[misc]
        assert copy.files() == life.here.files()
    life.copies |= {f"away{n}": copy for n, copy in enumerate(life.away)}
    await life.close()
