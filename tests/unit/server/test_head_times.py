"""Times of queues' heads: what is noted, told to other nodes, and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_world import BrokerWorld, publish_to
from warren.cluster.link.control import Counted
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.server.data_directory import HEADS_FILE
from warren.server.head_times import HeadTimes

NAME = ("/", "q")


class Heads(HeadTimes):
    """What it tells is kept in `told`."""

    def __init__(self, directory: Path, world: BrokerWorld) -> None:
        super().__init__(directory, world.broker.vhosts, world.host.clock)
        self.told: list[Counted] = []
        self.tell = self.told.extend

    def look(self) -> None:
        for _ in self.looking():
            pass


async def declared(world: BrokerWorld) -> Queue:
    queue = await world.vhost.declare_queue(QueueRecord(*NAME), False, "c")
    assert isinstance(queue, Queue)
    return queue


def pass_time(world: BrokerWorld, ms: int) -> None:
    world.host.clock.advance(ms)
    world.host.turn_clock.now_ms = world.host.clock.now_ms()


async def test_a_head_is_noted_told_and_read_by_the_next_life(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        heads, queue = Heads(tmp_path, world), await declared(world)
        pass_time(world, 1_000)
        came_ms = world.host.clock.now_ms()
        publish_to(queue)
        pass_time(world, 9_000)
        heads.look()
        await heads.save()
        assert heads.known == {NAME: came_ms}
        assert heads.whole() == heads.told

        elsewhere = Heads(tmp_path / "elsewhere", BrokerWorld(tmp_path / "no.vhosts"))
        assert all(elsewhere.heard(news) for news in heads.told)
        assert elsewhere.known == heads.known
        assert not elsewhere.heard(Counted(False, (("user-channels", "guest", 1),)))

        again = Heads(tmp_path, world)
        await again.recall()
        assert again.known == heads.known


async def test_only_changes_are_told_and_an_empty_queue_has_no_head(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        heads, queue = Heads(tmp_path, world), await declared(world)
        publish_to(queue)
        heads.look()
        pass_time(world, 100)
        heads.look()
        assert len(heads.told) == 1
        queue.purge()
        heads.look()
        assert heads.known == {}
        assert heads.told[-1].counts[0][2] == 0


async def test_a_deleted_queue_is_forgotten(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        heads = Heads(tmp_path, world)
        heads.known["/", "deleted"] = heads.known["gone", "q"] = 1
        heads.look()
        assert heads.known == {}


async def test_a_file_that_cannot_be_read_is_no_reason_not_to_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / HEADS_FILE).write_bytes(b"\xc1 torn")
    async with BrokerWorld(tmp_path) as world:
        heads = Heads(tmp_path, world)
        await heads.recall()
        assert heads.known == {}
    assert "ages of messages in queues are not known" in caplog.text
