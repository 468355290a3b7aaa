"""Where a consumer of a stream begins: `x-stream-offset`."""

from __future__ import annotations

from typing import Final

from warren.model.ages import age_ms
from warren.model.fields import Table, long
from warren.queues.consumers import Consumer
from warren.streams.log import StreamLog

ARGUMENT: Final = "x-stream-offset"
NEXT: Final = b"next"


def starting_offset(log: StreamLog, arguments: Table) -> int | None:
    """The offset; None if a moment is meant (`starting_moment_ms`). One not there yet is fine."""
    field = arguments.get(ARGUMENT)
    value = NEXT if field is None else field.value
    if value == NEXT:
        return log.end_offset
    if value == b"first":
        return log.first_offset
    if value == b"last":
        return log.last_chunk
    if field is not None and field.is_integer and isinstance(value, int):
        return max(value, log.first_offset)
    return None


def starting_moment_ms(arguments: Table, now_ms: int) -> int:
    """Of a timestamp, which has seconds, or of an interval until now."""
    field = arguments.get(ARGUMENT)
    assert field is not None, "without it, the next offset is meant"
    if field.kind == "T" and isinstance(field.value, int):
        return field.value * 1000
    assert isinstance(field.value, bytes), "it was checked"
    return now_ms - age_ms(field.value.decode())


def going_on_at(consumer: Consumer, offset: int) -> None:
    """Have it begin here, wherever it is served next."""
    consumer.arguments = consumer.arguments.replacing(ARGUMENT, long(offset))
