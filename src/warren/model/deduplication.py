"""Which messages have come before: a window of ids, for exchanges and queues that drop repeats.

A publisher gives a message an id in the header `x-deduplication-header`; messages without one are
nobody's repeats. The names are those of RabbitMQ's message deduplication plug-in.

A window is ordered by arrival. It forgets what is older than its time to live, and the oldest when
there are more ids than it may hold; whoever owns it may have it forget more. Nothing here knows the
time or keeps anything: the owner says what time it is, and hears (`on_gone`) which entries went, so
that it can remove what it has stored of them.

Times to live may differ from id to id, so an expired one may be behind one that is not: it counts
no more, but it is in memory until it is asked for or comes to the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from warren.model.fields import Field

DEDUPLICATION_HEADER: Final = "x-deduplication-header"
CACHE_SIZE: Final = "x-cache-size"
CACHE_TTL: Final = "x-cache-ttl"
CACHE_PERSISTENCE: Final = "x-cache-persistence"

WINDOW_IDS_DEFAULT: Final = 1_000_000
"""Where only a time to live is given."""

GONE_IDS_MIN: Final = 1_024
"""So many ids that have gone may be kept at least, between those that are in the window."""

UNBOUNDED: Final = (1 << 63) - 1
"""Size of a window whose owner sees to it that ids go."""

KEY_BYTES_MAX: Final = 64
"""A longer id is kept as its digest, so that a window's memory is bounded by its size."""


def key_of(field: Field) -> bytes:
    """What the ids of two messages are compared by: the value, not the width it was sent in."""
    value = field.value
    if isinstance(value, bytes):
        return key_of_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(b"i%d" % value)
    return _bounded(field.kind.encode() + repr(value).encode())


def key_of_text(text: bytes) -> bytes:
    return _bounded(b"s" + text)


def _bounded(key: bytes) -> bytes:
    if len(key) <= KEY_BYTES_MAX:
        return key
    return b"#" + blake2b(key, digest_size=KEY_BYTES_MAX - 1).digest()


class Remembered:
    """An id in a window, until `expires_at_ms` unless that is 0.

    There may be a million, so it refers to nothing that the garbage collector has to look at.
    """

    def __init__(self, key: bytes, expires_at_ms: int) -> None:
        self.key = key
        self.expires_at_ms = expires_at_ms
        self.pack = 0
        """The number of what the owner has stored the id in, if the owner has a use for one."""
        self.is_in_window = False


class Window:
    def __init__(
        self,
        size_max: int | None,
        ttl_ms: int | None,
        on_gone: Callable[[Remembered], None] | None = None,
    ) -> None:
        """`size_max` None: the owner sees to it that ids go."""
        self._size_max = UNBOUNDED if size_max is None else size_max
        self._ttl_ms = ttl_ms
        self._on_gone = on_gone
        self._may_expire = False
        self._entries: dict[bytes, Remembered] = {}
        # By arrival, the oldest first; the first one is in the window, others may have gone.
        # In a dictionary of a million the oldest is slow to find: it looks past all that went.
        self._order: deque[Remembered] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes, now_ms: int) -> Remembered | None:
        entry = self._entries.get(key)
        if entry is not None and _is_over(entry, now_ms):
            self.forget(entry)
            return None
        return entry

    def add(self, key: bytes, now_ms: int, ttl_ms: int | None = None) -> Remembered:
        """One that `find` does not find; its own time to live goes before that of the window."""
        ttl_ms = self._ttl_ms if ttl_ms is None else ttl_ms
        # As the constructor does it, which takes longer when called with arguments.
        entry = Remembered.__new__(Remembered)
        entry.key = key
        entry.expires_at_ms = 0 if ttl_ms is None else now_ms + ttl_ms
        entry.pack = 0
        self.restore(entry)
        self.make_room(now_ms)
        return entry

    def restore(self, entry: Remembered) -> None:
        """One from before a start: the caller gives them in their order."""
        assert entry.key not in self._entries, "a repeat is not remembered again"
        entry.is_in_window = True
        self._entries[entry.key] = entry
        self._order.append(entry)
        self._may_expire = self._may_expire or entry.expires_at_ms != 0

    def forget(self, entry: Remembered) -> None:
        """Whether or not it is still there."""
        if not entry.is_in_window:
            return
        entry.is_in_window = False
        del self._entries[entry.key]
        self._tidy()
        if self._on_gone is not None:
            self._on_gone(entry)

    def clear(self) -> None:
        for entry in self.entries():
            self.forget(entry)

    def entries(self) -> list[Remembered]:
        """Oldest first."""
        return [entry for entry in self._order if entry.is_in_window]

    def make_room(self, now_ms: int) -> None:
        """Forget what is too old, or too many; the newest stays, whatever its time to live."""
        while len(self._entries) > 1:
            is_full = len(self._entries) > self._size_max
            if not is_full and not self._may_expire:
                return
            oldest = self._order[0]
            if not is_full and not _is_over(oldest, now_ms):
                return
            self.forget(oldest)

    def _tidy(self) -> None:
        """Let go of entries that have gone: the first ones, or all once they are the majority."""
        order = self._order
        while order:
            first = order[0]
            if first.is_in_window:
                break
            order.popleft()
        if len(order) > 2 * len(self._entries) + GONE_IDS_MIN:
            self._order = deque(self.entries())


def _is_over(entry: Remembered, now_ms: int) -> bool:
    return entry.expires_at_ms != 0 and entry.expires_at_ms <= now_ms
