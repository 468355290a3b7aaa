"""Super streams: planned as RabbitMQ names them, declared as one, completed when broken off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_world import BrokerWorld
from topology_samples import table
from warren.broker.super_stream_operations import STREAMS_AT_ONCE_MAX
from warren.broker.super_streams import (
    Partition,
    SuperStreamWish,
    keyed,
    numbered,
    partitions_to_add,
    stream_arguments,
)
from warren.broker.vhost import VirtualHost
from warren.metadata.store import MetadataUnavailable
from warren.model.errors import SoftError
from warren.routing.super_stream import NOWHERE


def wish(count: int, **more: Any) -> SuperStreamWish:
    return SuperStreamWish("/", "s", numbered("s", count), **more)


def test_partitions_are_named_by_number_or_by_key() -> None:
    assert numbered("s", 2) == (Partition("s-0", "0", 0), Partition("s-1", "1", 1))
    assert keyed("s", ["b", "a"]) == (Partition("s-b", "b", 0), Partition("s-a", "a", 1))


@pytest.mark.parametrize("count", [0, -1, 1_001])
def test_there_are_neither_none_nor_too_many(count: int) -> None:
    with pytest.raises(SoftError, match="1 to 1000 partitions"):
        numbered("s", count)


@pytest.mark.parametrize("keys", [["a", "a"], ["a", ""], ["x" * 254]])
def test_keys_differ_and_fit_into_a_name(keys: list[str]) -> None:
    with pytest.raises(SoftError):
        keyed("s", keys)
    with pytest.raises(SoftError, match="1 to 1000 routing keys"):
        keyed("s", [])


def test_only_what_is_missing_is_added() -> None:
    existing = [Partition("s-0", "0", 0), Partition("s-2", "2", 2)]
    assert partitions_to_add(wish(4), existing) == (
        Partition("s-1", "1", 1),
        Partition("s-3", "3", 3),
    )
    assert partitions_to_add(wish(3), numbered("s", 3)) == ()


def test_a_place_that_is_taken_is_not_given_again() -> None:
    """New keys may stand before old ones in the list: the old ones stay where they are."""
    grown = SuperStreamWish("/", "s", keyed("s", ["new", "a", "b", "newer"]))
    added = partitions_to_add(grown, keyed("s", ["a", "b"]))
    assert added == (Partition("s-new", "new", 2), Partition("s-newer", "newer", 3))
    without_place = [Partition("s-0", "0", NOWHERE)]
    assert partitions_to_add(wish(2), without_place) == (Partition("s-1", "1", 1),)


def test_to_leave_one_out_is_refused_by_name() -> None:
    with pytest.raises(SoftError, match=r"has 3 partitions and is never made smaller.*'s-2'"):
        partitions_to_add(wish(2), numbered("s", 3))


def test_streams_are_spread_unless_told_otherwise_and_resemble_their_siblings() -> None:
    assert stream_arguments(None, None) == table(
        {"x-queue-type": "stream", "x-queue-leader-locator": "balanced"}
    )
    given = table({"x-max-age": "1D", "x-queue-leader-locator": "random"})
    assert stream_arguments(given, None) == table(
        {"x-queue-type": "stream", "x-max-age": "1D", "x-queue-leader-locator": "random"}
    )
    sibling = table({"x-queue-type": "stream", "x-max-age": "2D"})
    assert stream_arguments(None, sibling) == sibling


async def test_publishers_see_all_partitions_at_once(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    """Exchange, streams and bindings are one transaction, and so is what makes it grow."""
    seen: list[int] = []
    cancel = world.store.watch(lambda _: seen.append(len(vhost.super_streams.partitions("s"))))
    await vhost.super_streams.declare(wish(5))
    await vhost.super_streams.declare(wish(5))
    await vhost.super_streams.declare(wish(8))
    cancel()
    assert seen == [5, 8]


async def test_one_that_was_broken_off_is_completed_by_repeating_it(
    world: BrokerWorld, vhost: VirtualHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More streams than one transaction takes: the store fails at the one that binds them."""
    transact, calls = world.store.transact, []

    async def fail_third(*arguments: Any) -> bool:
        calls.append(arguments)
        if len(calls) == 3:
            raise MetadataUnavailable("the disk is full")
        return await transact(*arguments)

    monkeypatch.setattr(world.store, "transact", fail_third)
    count = 2 * STREAMS_AT_ONCE_MAX + 3
    with pytest.raises(MetadataUnavailable):
        await vhost.super_streams.declare(wish(count))
    assert "s" not in vhost.exchanges
    assert len(vhost.queues) == 2 * STREAMS_AT_ONCE_MAX
    await vhost.super_streams.declare(wish(count))
    assert [each.stream for each in vhost.super_streams.partitions("s")] == [
        f"s-{number}" for number in range(count)
    ]
    await vhost.super_streams.delete("s")
    assert "s" not in vhost.exchanges
    assert len(vhost.queues) == 0


async def test_two_that_declare_at_once_make_one(vhost: VirtualHost) -> None:
    await asyncio.gather(*(vhost.super_streams.declare(wish(n)) for n in (6, 6, 6)))
    assert len(vhost.super_streams.partitions("s")) == 6
    assert len(vhost.bindings.of_source("s")) == 6
