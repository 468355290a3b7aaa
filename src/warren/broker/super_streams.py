"""Plans super streams: what partitions a declaration asks for, and which are to be added.

Names are RabbitMQ's: the streams of `orders` with three partitions are `orders-0`, `orders-1` and
`orders-2`, bound by the keys "0", "1" and "2"; those of routing keys `emea` and `apac` are
`orders-emea` and `orders-apac`, bound by these keys. Each binding says in an argument which place
its partition has, which is the order in which clients count them.

A super stream only grows. A partition that went would take its records with it, and the keys of all
others would move as well; so a declaration that leaves one out is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from warren.model.errors import precondition_failed
from warren.model.fields import EMPTY_TABLE, Field, Table, long, longstr
from warren.model.limits import SHORTSTR_BYTES_MAX, SUPER_STREAM_PARTITIONS_MAX
from warren.model.records import BindingRecord, Destination, DestinationKind, ExchangeRecord
from warren.routing.super_stream import (
    NOWHERE,
    PARTITION_ORDER,
    SUPER_STREAM,
    SUPER_STREAM_TYPE,
)

NUMBERED_TYPE: Final = SUPER_STREAM_TYPE
KEYED_TYPE: Final = "direct"
TYPES: Final = (NUMBERED_TYPE, KEYED_TYPE)
LEADER_LOCATOR: Final = "x-queue-leader-locator"
_TYPE: Final = "x-queue-type"


class Partition(NamedTuple):
    """A stream of a super stream, the key that it is bound by, and its place from 0 on."""

    stream: str
    key: str
    order: int


@dataclass(frozen=True, slots=True)
class SuperStreamWish:
    """A super stream as it is asked for.

    `exchange_type` and `arguments` (of the streams) may be left to what is there, by None.
    """

    vhost: str
    name: str
    partitions: tuple[Partition, ...]
    exchange_type: str | None = None
    arguments: Table | None = None
    created_by: str = ""
    default_type: str = NUMBERED_TYPE

    def exchange(self) -> ExchangeRecord:
        return ExchangeRecord(
            self.vhost,
            self.name,
            self.exchange_type or self.default_type,
            arguments=Table([(SUPER_STREAM, Field("t", True))]),
            created_by=self.created_by,
        )

    def binding(self, partition: Partition) -> BindingRecord:
        return BindingRecord(
            self.vhost,
            self.name,
            Destination(DestinationKind.QUEUE, partition.stream),
            partition.key,
            Table([(PARTITION_ORDER, long(partition.order))]),
        )


def numbered(name: str, count: int) -> tuple[Partition, ...]:
    """Return the partitions that `--partitions` asks for."""
    if not 1 <= count <= SUPER_STREAM_PARTITIONS_MAX:
        raise precondition_failed(
            f"a super stream has 1 to {SUPER_STREAM_PARTITIONS_MAX} partitions, not {count}"
        )
    return _checked([Partition(f"{name}-{order}", str(order), order) for order in range(count)])


def keyed(name: str, keys: Sequence[str]) -> tuple[Partition, ...]:
    """Return the partitions that `--routing-keys` asks for, in this order."""
    if not 1 <= len(keys) <= SUPER_STREAM_PARTITIONS_MAX:
        raise precondition_failed(
            f"a super stream has 1 to {SUPER_STREAM_PARTITIONS_MAX} routing keys, not {len(keys)}"
        )
    if len(set(keys)) < len(keys) or "" in keys:
        raise precondition_failed("the routing keys of a super stream differ, and none is empty")
    return _checked([Partition(f"{name}-{key}", key, order) for order, key in enumerate(keys)])


def _checked(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    for partition in partitions:
        if len(partition.stream.encode()) > SHORTSTR_BYTES_MAX:
            raise precondition_failed(
                f"the name of partition '{partition.stream}' has more than "
                f"{SHORTSTR_BYTES_MAX} bytes"
            )
    return tuple(partitions)


def partitions_to_add(
    wish: SuperStreamWish, existing: Sequence[Partition]
) -> tuple[Partition, ...]:
    """Return the partitions that are asked for and not bound yet, with places behind all others.

    Refuses what would shrink the super stream, or make another one of it.
    """
    wanted = {(partition.stream, partition.key) for partition in wish.partitions}
    lost = [each for each in existing if (each.stream, each.key) not in wanted]
    if lost:
        names = ", ".join(f"'{partition.stream}'" for partition in lost)
        raise precondition_failed(
            f"super stream '{wish.name}' in vhost '{wish.vhost}' has {len(existing)} partitions "
            f"and is never made smaller: the declaration leaves out {names}. Declare one of "
            "another name and move to it"
        )
    there = {(each.stream, each.key) for each in existing}
    missing = [each for each in wish.partitions if (each.stream, each.key) not in there]
    return tuple(_placed(missing, (each.order for each in existing)))


def _placed(missing: Iterable[Partition], taken: Iterable[int]) -> Iterable[Partition]:
    """A place that is asked for and free is given; others are behind all that are taken."""
    used = {order for order in taken if order != NOWHERE}
    for partition in missing:
        order = partition.order if partition.order not in used else max(used) + 1
        used.add(order)
        yield partition._replace(order=order)


def stream_arguments(given: Table | None, sibling: Table | None) -> Table:
    """Return the arguments of a new partition: as given, or else those of one that is there.

    Leaders are spread unless the declaration says where they are to be: all partitions on the node
    that was asked would be one node's work again.
    """
    if given is None and sibling is not None:
        return sibling
    arguments = given or EMPTY_TABLE
    if _TYPE not in arguments:
        arguments = Table([(_TYPE, longstr("stream")), *arguments])
    if LEADER_LOCATOR not in arguments:
        arguments = Table([*arguments, (LEADER_LOCATOR, longstr("balanced"))])
    return arguments
