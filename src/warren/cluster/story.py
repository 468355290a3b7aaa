"""The story of each mirrored queue: the last things that happened to it on this node, and why.

Events and decisions about a queue are noted one after the other, so that a person (or a failing
test) can read what led to what. Frames and acknowledgements are left out: they are too many, and
the ring has its own checks.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from warren.model.records import QueueName

ENTRIES_PER_QUEUE_MAX: Final = 100
QUEUES_MAX: Final = 4_096
"""Queues with a story; the one that was least recently heard of goes first."""


class Entry(NamedTuple):
    """`at_ms` is the node's clock; `facts` are what the text is about."""

    at_ms: int
    what: str
    facts: tuple[object, ...]

    @property
    def text(self) -> str:
        return " ".join(map(str, (self.what, *self.facts)))

    def __str__(self) -> str:
        return f"{self.at_ms} ms: {self.text}"


class Stories:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entries: OrderedDict[QueueName, deque[Entry]] = OrderedDict()

    def note(self, name: QueueName, what: str, *facts: object) -> None:
        entries = self._entries.get(name)
        if entries is None:
            entries = self._entries[name] = deque(maxlen=ENTRIES_PER_QUEUE_MAX)
            if len(self._entries) > QUEUES_MAX:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(name)
        entries.append(Entry(self._now_ms(), what, facts))

    def of(self, name: QueueName) -> list[Entry]:
        return list(self._entries.get(name, ()))
