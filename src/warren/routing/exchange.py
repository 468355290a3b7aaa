"""An exchange that routes: what was declared, and its bindings in the shape its kind searches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from warren.model.counters import ExchangeCounters
from warren.model.equivalence import alternate_exchange_of
from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination, DestinationKind, ExchangeRecord
from warren.routing.deduplicating import (
    DEDUPLICATION_TYPE,
    DeduplicatingMatcher,
    validate_deduplication,
)
from warren.routing.direct import DirectMatcher
from warren.routing.fanout import FanoutMatcher
from warren.routing.headers import HeadersMatcher, validate_x_match
from warren.routing.matcher import Destinations, Matcher, count_in, count_out
from warren.routing.super_stream import (
    SUPER_STREAM_TYPE,
    SuperStreamMatcher,
    validate_partition_key,
)
from warren.routing.topic import TopicMatcher

_MATCHERS: Final[dict[str, Callable[[], Matcher]]] = {
    "direct": DirectMatcher,
    "fanout": FanoutMatcher,
    "topic": TopicMatcher,
    "headers": HeadersMatcher,
    SUPER_STREAM_TYPE: SuperStreamMatcher,
}
KNOWN_TYPES: Final = frozenset({*_MATCHERS, DEDUPLICATION_TYPE})
_LOOK_AT_HEADERS: Final = frozenset({"headers", DEDUPLICATION_TYPE})


class Exchange:
    """`alternate` names the exchange that gets what this one cannot route, if there is one."""

    __slots__ = (
        "_bindings_count", "_matcher", "_next_exchanges", "alternate", "counters", "record",
    )  # fmt: skip

    def __init__(self, record: ExchangeRecord, matcher: Matcher) -> None:
        self.record = record
        self.alternate = alternate_exchange_of(record)
        self.counters = ExchangeCounters()
        self._matcher = matcher
        self._bindings_count = 0
        self._next_exchanges: Destinations = {}

    def bind(self, binding: BindingRecord) -> None:
        """Add a binding that is not there yet: the binding table tells."""
        self._matcher.add(binding)
        self._bindings_count += 1
        if binding.destination.kind is DestinationKind.EXCHANGE:
            count_in(self._next_exchanges, binding.destination)

    def unbind(self, binding: BindingRecord) -> None:
        """Remove a binding that is there."""
        self._matcher.remove(binding)
        self._bindings_count -= 1
        assert self._bindings_count >= 0, "more bindings were removed than had been added"
        if binding.destination.kind is DestinationKind.EXCHANGE:
            count_out(self._next_exchanges, binding.destination)

    def route(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        return self._matcher.match(routing_key, headers)

    def route_kept_as(self, routing_key: str) -> str:
        """Return what stands for this key, and others with the same route, among kept routes."""
        matcher = self._matcher
        if isinstance(matcher, SuperStreamMatcher) and not self.next_exchanges:
            return matcher.partition_of(routing_key)
        return routing_key

    @property
    def saved_window(self) -> DeduplicatingMatcher | None:
        """What of it a stop in good order saves, if anything."""
        matcher = self._matcher
        if isinstance(matcher, DeduplicatingMatcher) and matcher.is_saved:
            return matcher
        return None

    @property
    def bindings_count(self) -> int:
        """Of how many bindings it is the source."""
        return self._bindings_count

    @property
    def is_unused(self) -> bool:
        """Whether it is the source of no binding."""
        return self._bindings_count == 0

    @property
    def depends_on_headers(self) -> bool:
        return self.record.type in _LOOK_AT_HEADERS

    @property
    def next_exchanges(self) -> list[str]:
        """The exchanges a message may go on to from this one."""
        names = [destination.name for destination in self._next_exchanges]
        return names if self.alternate is None else [*names, self.alternate]


def make_exchange(record: ExchangeRecord, now_ms: Callable[[], int] = lambda: 0) -> Exchange:
    """`now_ms` is for those that remember what came, and for how long."""
    if record.type == DEDUPLICATION_TYPE:
        return Exchange(record, DeduplicatingMatcher(record.arguments, now_ms))
    return Exchange(record, _MATCHERS[record.type]())


def validate_exchange(record: ExchangeRecord) -> None:
    """Raise what the declaration of such an exchange is refused with."""
    alternate_exchange_of(record)
    if record.type == DEDUPLICATION_TYPE:
        validate_deduplication(record.arguments)


def validate_binding(exchange_type: str, binding: BindingRecord) -> None:
    """Raise what such a binding to such an exchange is refused with."""
    if exchange_type == "headers":
        validate_x_match(binding.arguments)
    elif exchange_type == SUPER_STREAM_TYPE:
        validate_partition_key(binding)
