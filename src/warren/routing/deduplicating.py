"""Exchanges of type x-message-deduplication: a fanout that passes each id on once.

As in the plug-in of that name, a repeat is a message that no binding matches: it goes to the
alternate exchange if there is one, back to a publisher that said mandatory, and nowhere otherwise.
It is confirmed in any case. An id counts as soon as its message is routed, whatever becomes of it
in the queues; a publisher that retries what was refused wants a queue that deduplicates.

Therefore nothing is written while messages come: an id that outlived a crash that its message did
not would have the message dropped that its publisher sends again. With x-cache-persistence `disk`
a node that stops in good order, when all that it has taken is safe, saves what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from warren.model.deduplication import (
    CACHE_PERSISTENCE,
    CACHE_SIZE,
    CACHE_TTL,
    DEDUPLICATION_HEADER,
    Remembered,
    Window,
    key_of,
)
from warren.model.errors import precondition_failed
from warren.model.fields import Field, Table
from warren.model.records import Destination
from warren.routing.fanout import FanoutMatcher

DEDUPLICATION_TYPE: Final = "x-message-deduplication"


SavedId: TypeAlias = tuple[bytes, int]
"""The id as it is compared, and when it expires (0: never)."""


class DeduplicatingMatcher(FanoutMatcher):
    def __init__(self, arguments: Table, now_ms: Callable[[], int]) -> None:
        super().__init__()
        persistence = arguments.get(CACHE_PERSISTENCE)
        self.is_saved = persistence is not None and persistence.value == b"disk"
        """Whether a stop in good order saves it."""
        self._now_ms = now_ms
        self._window = Window(positive(arguments.get(CACHE_SIZE)), _ttl_of(arguments))

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        field = None if headers is None else headers.get(DEDUPLICATION_HEADER)
        if headers is None or field is None:
            return super().match(routing_key, headers)
        key, now_ms = key_of(field), self._now_ms()
        if self._window.find(key, now_ms) is not None:
            return ()
        self._window.add(key, now_ms, _ttl_of(headers))
        return super().match(routing_key, headers)

    def remembered(self) -> list[SavedId]:
        """Oldest first."""
        return [(entry.key, entry.expires_at_ms) for entry in self._window.entries()]

    def remember(self, ids: Iterable[SavedId]) -> None:
        """Those from before a start, before anything has come."""
        for key, expires_at_ms in ids:
            self._window.restore(Remembered(key, expires_at_ms))


def validate_deduplication(arguments: Table) -> None:
    """Refuse an exchange that is about to be created, if its arguments make no sense."""
    if positive(arguments.get(CACHE_SIZE)) is None:
        raise precondition_failed(
            f"Missing or invalid argument, '{CACHE_SIZE}' must be an integer greater than 0"
        )
    if CACHE_TTL in arguments and _ttl_of(arguments) is None:
        raise precondition_failed(
            f"Invalid argument, '{CACHE_TTL}' must be an integer greater than 0"
        )
    persistence = arguments.get(CACHE_PERSISTENCE)
    if persistence is not None and persistence.value not in (b"disk", b"memory"):
        raise precondition_failed(
            f"Invalid argument, '{CACHE_PERSISTENCE}' must be either 'disk' or 'memory'"
        )


def positive(field: Field | None) -> int | None:
    """A number, also in digits, as the plug-in takes it; None for anything else."""
    if field is None:
        return None
    value = field.value
    if field.kind == "S" and isinstance(value, bytes) and value.isdigit() and len(value) < 19:
        value = int(value)
    elif not field.is_integer:
        return None
    return value if isinstance(value, int) and value > 0 else None


def _ttl_of(table: Table) -> int | None:
    return positive(table.get(CACHE_TTL))
