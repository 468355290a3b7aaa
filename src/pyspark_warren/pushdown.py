"""Filters of a query that the source takes over from Spark, in batches.

    offset, timestamp     the span that is read is cut to them
    queue                 others are not read
    routing_key, exchange the broker skips chunks without a match, the rest is filtered here

Spark offers filters on whole columns alone: not those on `headers['x']` (option `filterHeaders`),
nor any in a stream. It offers them only if `spark.sql.python.filterPushdown.enabled` is true, and
refuses a reader that has the method `pushFilters` if it is not. So the reader has something in its
place that looks to Spark like the method of its base class, which means that there is none, and can
be called all the same: then filters are used where they are offered, and nothing is lost elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader

from pyspark_warren.planning import Span
from pyspark_warren.positions import OFFSET_MAX
from pyspark_warren.row_filter import RowFilter, TextKind, TextTest

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TEXTS: Final[dict[str, TextKind]] = {
    "EqualTo": "equal",
    "EqualNullSafe": "equal",
    "In": "equal",
    "StringStartsWith": "prefix",
    "StringEndsWith": "suffix",
    "StringContains": "contained",
}
_NEVER_NULL: Final = frozenset({"offset", "timestamp", "queue", "routing_key", "exchange"})


@dataclass(frozen=True, slots=True)
class Pushed:
    """What the filters leave of a read."""

    span: Span = (0, OFFSET_MAX)
    """Offsets of all queues."""
    queues: frozenset[str] | None = None
    """None: all of them."""
    row_filter: RowFilter = field(default_factory=RowFilter)

    def with_filter(self, wanted: Filter) -> Pushed | None:
        """The same, with one more filter; None if that is none of those that are known here."""
        kind = type(wanted).__name__
        # `Not` has no attribute, but another filter within.
        column: tuple[str, ...] = getattr(wanted, "attribute", ())
        if len(column) != 1:
            return None
        if kind == "IsNotNull":
            return self if column[0] in _NEVER_NULL else None
        value = getattr(wanted, "value", None)
        if value is None:
            return None
        match column[0]:
            case "offset":
                return self._of_offset(kind, value)
            case "timestamp":
                return self._of_time(kind, value)
            case "queue" if kind in {"EqualTo", "EqualNullSafe", "In"}:
                names = frozenset(_several(value))
                return replace(self, queues=names if self.queues is None else self.queues & names)
            case "routing_key" | "exchange" if kind in _TEXTS:
                test = TextTest(_TEXTS[kind], _several(value), column[0] == "exchange")
                keys = (*self.row_filter.keys, test)
                return replace(self, row_filter=replace(self.row_filter, keys=keys))
        return None

    def _of_offset(self, kind: str, value: Any) -> Pushed | None:
        bounds = _bounds(kind, value)
        if bounds is None:
            return None
        start, end = bounds
        span = self.span
        if start is not None:
            span = (max(span[0], start), span[1])
        if end is not None:
            span = (span[0], min(span[1], end))
        return replace(self, span=span)

    def _of_time(self, kind: str, value: Any) -> Pushed | None:
        if not isinstance(value, datetime):
            return None
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        bounds = _bounds(kind, (aware - _EPOCH) // _MICROSECOND)
        if bounds is None:
            return None
        start, end = bounds
        old = self.row_filter
        if start is not None:
            start = start if old.since_us is None else max(start, old.since_us)
        if end is not None:
            end = end if old.until_us is None else min(end, old.until_us)
        since = old.since_us if start is None else start
        until = old.until_us if end is None else end
        return replace(self, row_filter=replace(old, since_us=since, until_us=until))


def _bounds(kind: str, value: Any) -> tuple[int | None, int | None] | None:
    """The first whole number that a comparison lets pass, and the first it does not any more."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return value, value + 1
        case "GreaterThan":
            return value + 1, None
        case "GreaterThanOrEqual":
            return value, None
        case "LessThan":
            return None, value
        case "LessThanOrEqual":
            return None, value + 1
    return None


def _several(value: Any) -> tuple[str, ...]:
    """The texts of a comparison; nothing is equal to null."""
    values = value if isinstance(value, list | tuple) else (value,)
    return tuple(text for text in values if isinstance(text, str))


class FilterPushdown:
    """Takes the place of a reader's `pushFilters`."""

    def __init__(self, take: Callable[[Pushed], None], pushed: Pushed) -> None:
        # What Spark compares to know whether a reader has the method. Before 4.1 there is none.
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)
        self._take = take
        self._pushed = pushed

    def __call__(self, filters: Iterable[Filter]) -> list[Filter]:
        """Use what is known here, and return the rest."""
        rest = []
        for wanted in filters:
            narrowed = self._pushed.with_filter(wanted)
            if narrowed is None:
                rest.append(wanted)
            else:
                self._pushed = narrowed
        self._take(self._pushed)
        return rest
