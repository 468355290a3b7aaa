"""Exchanges of type x-super-stream: each routing key is hashed to one partition of a super stream.

A super stream is an exchange and the streams that are bound to it, its partitions, by the keys "0",
"1", "2" and so on. With a direct exchange the publisher has to hash its key itself and publish with
the number; RabbitMQ's stream clients do. With this type any AMQP publisher publishes with its own
key, and the broker hashes it as those clients would. So both kinds of publisher may share a super
stream, and all messages of a key are in one partition, in order.

Partitions are counted in the order of their numbers. Where a number is missing, the ones that are
left share its keys, as they do for stream clients, which take what the broker lists; RabbitMQ's
exchange has no route then.

Keys are many (one for each customer) and partitions few, so the routes that the virtual host keeps
are kept by partition: see `RouteCache`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from warren.model.errors import precondition_failed
from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination, ExchangeRecord
from warren.routing.matcher import Destinations, count_in, count_out

SUPER_STREAM_TYPE: Final = "x-super-stream"
SUPER_STREAM: Final = "x-super-stream"
"""The argument that marks an exchange as a super stream, whatever its type."""
PARTITION_ORDER: Final = "x-stream-partition-order"
"""The argument of a binding that says which partition, from 0 on, its stream is."""

NOWHERE: Final = 2**63
"""The place of a partition that does not say where it is: behind all that do."""

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class SuperStreamMatcher:
    def __init__(self) -> None:
        # Compiled, and of use to few: brokers without super streams go without its 100 KiB.
        from warren.routing.murmur import SEED, murmur3_32

        self._hash, self._seed = murmur3_32, SEED
        self._by_key: dict[str, Destinations] = {}
        self._keys: list[str] = []

    def add(self, binding: BindingRecord) -> None:
        count_in(self._by_key.setdefault(binding.routing_key, {}), binding.destination)
        self._count_keys()

    def remove(self, binding: BindingRecord) -> None:
        destinations = self._by_key[binding.routing_key]
        count_out(destinations, binding.destination)
        if not destinations:
            del self._by_key[binding.routing_key]
        self._count_keys()

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        return self._by_key.get(self.partition_of(routing_key), ())

    def partition_of(self, routing_key: str) -> str:
        """Return the binding key of the routing key's partition; empty if there is none."""
        if not self._keys:
            return ""
        octets = routing_key.encode(errors="surrogateescape")
        return self._keys[self._hash(octets, self._seed) % len(self._keys)]

    def _count_keys(self) -> None:
        self._keys = sorted(self._by_key, key=_number_first)


def _number_first(key: str) -> tuple[int, str]:
    return int(key) if _WHOLE_NUMBER.fullmatch(key) else NOWHERE, key


def validate_partition_key(binding: BindingRecord) -> None:
    """Refuse a binding whose key is no number, with RabbitMQ's text."""
    if _WHOLE_NUMBER.fullmatch(binding.routing_key) is None:
        raise precondition_failed(f"The binding key must be an integer: {binding.routing_key}")


def is_super_stream(exchange: ExchangeRecord) -> bool:
    """True if the exchange is of the type, or has the argument that RabbitMQ's tools set."""
    field = exchange.arguments.get(SUPER_STREAM)
    is_marked = field is not None and field.value is True
    return exchange.type == SUPER_STREAM_TYPE or is_marked


def partition_order(binding: BindingRecord) -> int:
    """Return the place of a partition; behind all others if the binding does not say."""
    field = binding.arguments.get(PARTITION_ORDER)
    if field is None or not field.is_integer or not isinstance(field.value, int):
        return NOWHERE
    return field.value
