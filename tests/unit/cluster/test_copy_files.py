"""Copy files: what a real disk has of mirrored queues, of streams, and of each priority."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from machine_world import NAME, group_on
from replica_world import message, with_priority
from shell_world import ShellWorld
from warren.cluster.copy_files import CopyFiles
from warren.model.fields import Field, Table
from warren.queues.queue import Queue
from warren.streams.log import StreamLog

STREAM = Table([("x-queue-type", Field("S", b"stream"))])
PRIORITIES = Table([("x-max-priority", Field("I", 3))])
LAZY = Table([("x-queue-mode", Field("S", b"lazy"))])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ShellWorld]:
    async with ShellWorld(tmp_path) as world:
        yield world


@pytest.fixture
def files(world: ShellWorld) -> CopyFiles:
    return CopyFiles(world.factory)


async def test_virtual_hosts_are_open_once_their_storage_is(files: CopyFiles) -> None:
    assert files.is_open("/")
    assert not files.is_open("other")


async def test_streams_are_told_apart(world: ShellWorld, files: CopyFiles) -> None:
    await world.declare("b", arguments=STREAM)
    assert files.is_stream(NAME)
    (log,) = files.recovered(NAME).values()
    assert isinstance(log, StreamLog)


async def test_a_level_is_as_lazy_as_its_queue(world: ShellWorld, files: CopyFiles) -> None:
    await world.declare("b", arguments=LAZY)
    assert not files.is_stream(NAME)
    assert files.level(NAME, 0).is_lazy


RECOVERABLE = group_on("b", recoverable=("b", "a"))


async def test_what_the_disk_had_at_the_start_is_found_again(tmp_path: Path) -> None:
    """The copy joins its group. Its next number is the one after all that the disk ever had."""
    async with ShellWorld(tmp_path) as world:
        queue = await world.declare()
        assert isinstance(queue, Queue)
        for number in range(3):
            queue.publish(message(number), None, 0)
        await world.factory.storages["/"].index.flush()
        await world.put_group(RECOVERABLE)
    async with ShellWorld(tmp_path) as world:
        (level,) = world.shell.node.replicas[NAME].replica.mirror.levels.values()
        assert (level.length, level.next_sequence) == (3, 3)


async def test_each_priority_that_the_disk_had_is_a_level(tmp_path: Path) -> None:
    """3-37."""
    async with ShellWorld(tmp_path) as world:
        queue = await world.declare(arguments=PRIORITIES)
        assert isinstance(queue, Queue)
        for priority in (1, 3):
            queue.publish(with_priority(1, priority), None, 0)
        await world.factory.storages["/"].index.flush()
        await world.put_group(RECOVERABLE)
    async with ShellWorld(tmp_path) as world:
        levels = world.shell.node.replicas[NAME].replica.mirror.levels
        assert {number: level.length for number, level in levels.items()} == {1: 1, 3: 1}
