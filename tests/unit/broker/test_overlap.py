"""Many at once on the same few names, some of them cancelled, compared with the store's view."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from broker_world import BrokerWorld
from topology_model import PREDECLARED
from topology_samples import binding, exchange, queue, to_exchange, to_queue
from warren.broker.vhost import VirtualHost
from warren.metadata.codec import decode_binding, decode_exchange, decode_queue
from warren.metadata.store import Change
from warren.model.errors import AmqpError
from warren.model.records import DestinationKind

BURSTS = 40
AT_ONCE = 12

EXCHANGES = [
    exchange("plain", "fanout"),
    exchange("auto", "fanout", auto_delete=True),
    exchange("auto-transient", "fanout", auto_delete=True, durable=False),
    exchange("auto-too", "fanout", auto_delete=True),
]
QUEUES = [
    queue("durable"),
    queue("other"),
    queue("transient", durable=False),
    queue("exclusive", owner="c"),
]
ENDS = [to_queue(q.name) for q in QUEUES] + [to_exchange(x.name) for x in EXCHANGES]
TRANSIENT = {"auto-transient", "transient", "exclusive"}
SOURCES = ["amq.topic", *(x.name for x in EXCHANGES)]


def choose(vhost: VirtualHost, dice: random.Random) -> object:
    """Declares and binds more often than deletes, or there would be nothing to delete."""
    wanted = binding(dice.choice(SOURCES), dice.choice(ENDS), dice.choice("ab"))
    match dice.randrange(12):
        case 0 | 1:
            return vhost.declare_exchange(dice.choice(EXCHANGES))
        case 2 | 3:
            return vhost.declare_queue(dice.choice(QUEUES), False, "c")
        case 4:
            return vhost.delete_queue(dice.choice(QUEUES).name, False, False, "c")
        case 5:
            return vhost.delete_exchange(dice.choice(EXCHANGES).name, dice.random() < 0.5)
        case 6 if dice.random() < 0.3:
            return vhost.drop_exclusive("c")
        case 7 | 8:
            return vhost.unbind(wanted, "c")
    return vhost.bind(wanted, "c")


class AutoDeleteWatch:
    """Follows which auto-delete exchanges have been a source since they were declared."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def __call__(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.key.startswith("exchange/") and change.record is None:
                self.used.discard(change.key.rsplit("/", 1)[1])
            elif change.key.startswith("binding/") and change.record is not None:
                self.used.add(decode_binding(change.record.value).source)


async def burst(vhost: VirtualHost, dice: random.Random) -> None:
    tasks = [asyncio.ensure_future(choose(vhost, dice)) for _ in range(AT_ONCE)]
    for _ in range(dice.randrange(4)):
        await asyncio.sleep(0)
    for task in tasks:
        if dice.random() < 0.1:
            task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        expected = AmqpError, asyncio.CancelledError
        assert not isinstance(result, BaseException) or isinstance(result, expected), result


async def require_agreement(world: BrokerWorld) -> None:
    """Memory has what the store has, and what belongs together is there together."""
    vhost, store = world.vhost, world.store
    await vhost.declare_queue(queue("barrier"), False, "c")  # behind all that were cancelled
    await vhost.delete_queue("barrier", False, False, "c")
    await vhost.remove_orphans()
    exchanges = {decode_exchange(each.value).name for each in await store.range("exchange/")}
    queues = {decode_queue(each.value).name for each in await store.range("queue/")}
    bindings = {decode_binding(each.value) for each in await store.range("binding/")}
    assert set(vhost.exchanges) - PREDECLARED == exchanges
    assert set(vhost.queues) == queues
    assert set(vhost.bindings.all()) == bindings
    for each in bindings:
        assert each.source in vhost.exchanges
        is_queue = each.destination.kind is DestinationKind.QUEUE
        assert each.destination.name in (vhost.queues if is_queue else vhost.exchanges)
    for name, made in vhost.exchanges.items():
        assert made.is_unused == (vhost.bindings.of_source(name) == ())


@pytest.mark.parametrize("seed", range(6))
async def test_overlapping_changes_leave_memory_and_store_agreed(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    async with BrokerWorld(tmp_path) as world:
        watch = AutoDeleteWatch()
        world.store.watch(watch)
        for _ in range(BURSTS):
            await burst(world.vhost, dice)
            await require_agreement(world)
            for name, made in world.vhost.exchanges.items():
                if made.record.auto_delete and name in watch.used:
                    assert not made.is_unused, f"{name} has lost its last binding"
        durable = {q.record for q in world.vhost.queues.values() if q.record.durable}
        bindings = {
            each
            for each in world.vhost.bindings.all()
            if not {each.source, each.destination.name}
            & {"auto-transient", "transient", "exclusive"}
        }
    async with BrokerWorld(tmp_path) as world:
        assert {q.record for q in world.vhost.queues.values()} == durable
        assert set(world.vhost.bindings.all()) == bindings
