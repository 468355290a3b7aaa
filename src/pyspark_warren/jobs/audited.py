"""Audited copies: what an audit found, and what it makes of that in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

DUPLICATE: Final = "duplicate"
SHOWN_MAX: Final = 1_000
"""The number of findings of each sort that are kept; more are told as "at least"."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A message, or a part of a stream, of which the copies differ.

    `copies` says for each node how often it has the message. A part of a stream has the offsets
    from `offset` up to `end`, and `copies` says which nodes have the same bytes there.
    """

    kind: str
    vhost: str
    queue: str
    hash: str
    message_id: str | None
    copies: dict[str, int]
    offset: int | None = None
    end: int = 0

    @property
    def what(self) -> str | None:
        """The message's id, or the offsets."""
        if self.offset is None:
            return self.message_id
        if self.end <= self.offset + 1:
            return f"offset {self.offset}"
        return f"offsets {self.offset} to {self.end - 1}"

    def __str__(self) -> str:
        where = f"{self.kind}: {self.queue!r} in {self.vhost!r}"
        if self.offset is None:
            return f"{where}, id {self.message_id}, {self.hash}, {self.copies}"
        return f"{where}, {self.what}, {self.copies}"


@dataclass(frozen=True, slots=True)
class Absent:
    """A queue or stream that some nodes have, and others have nothing of at all."""

    kind: str
    vhost: str
    queue: str
    on: tuple[str, ...]
    not_on: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"absent: {self.kind} {self.queue!r} in {self.vhost!r} is on {', '.join(self.on)} and "
            f"not on {', '.join(self.not_on)}"
        )


@dataclass
class NodeFigures:
    queues: int = 0
    messages: int = 0
    streams: int = 0
    records: int = 0
    lost: int = 0
    live_bytes: int = 0
    file_bytes: int = 0

    @property
    def garbage(self) -> float:
        """The share of queues' files that no message needs: heads, index, what is not yet freed."""
        return 1 - self.live_bytes / self.file_bytes if self.file_bytes else 0.0


@dataclass
class Audited:
    nodes: dict[str, NodeFigures] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    """Queues and streams that are on too few nodes."""
    damage: list[str] = field(default_factory=list)
    confirmed_missing: list[str] = field(default_factory=list)

    @property
    def are_copies_same(self) -> bool:
        return not self.absent and all(one.kind == DUPLICATE for one in self.differences)

    @property
    def is_sound(self) -> bool:
        return self.are_copies_same and not (self.damage or self.confirmed_missing)

    @property
    def verdict(self) -> str:
        """One sentence: about the copies, and about what is wrong besides."""
        same = self.are_copies_same
        parts = ["the copies are the same" if same else "the copies are NOT the same"]
        if self.absent:
            queues = _many(len(self.absent), "queue or stream is", "queues or streams are")
            parts.append(f"{queues} not on every node that should have a copy")
        if self.damage:
            parts.append(_many(len(self.damage), "thing is damaged", "things are damaged"))
        if self.confirmed_missing:
            missing = _many(
                len(self.confirmed_missing), "confirmed message is", "confirmed messages are"
            )
            parts.append(f"{missing} on no node")
        joined = "; ".join(parts[1:])
        return f"{parts[0]}, but {joined}" if same and joined else "; ".join(parts)

    def lines(self) -> list[str]:
        """Return everything as text, the verdict last."""
        lines = [
            f"{name}: {_many(node.messages, 'message')} in {_many(node.queues, 'queue')}, "
            f"{_many(node.records, 'record')} in {_many(node.streams, 'stream')}; "
            f"{node.file_bytes} bytes of queues' files, {node.garbage:.0%} of them not messages"
            for name, node in self.nodes.items()
        ]
        lines += [str(one) for one in self.absent]
        lines += [str(one) for one in self.differences]
        lines += [f"damage: {text}" for text in self.damage]
        lines += [f"confirmed and missing: {identity}" for identity in self.confirmed_missing]
        return [*lines, self.verdict]

    def by_queue(self) -> dict[str, Counter[str]]:
        """Return how many findings of which kind each queue has."""
        found: dict[str, Counter[str]] = {}
        kinds = [(one.kind, one.queue, one.vhost) for one in self.differences]
        kinds += [("absent", one.queue, one.vhost) for one in self.absent]
        for kind, queue, vhost in kinds:
            found.setdefault(f"{queue} in {vhost}", Counter())[kind] += 1
        return found


def _many(number: int, one: str, several: str = "") -> str:
    least = "at least " if number >= SHOWN_MAX and " " in one else ""
    return f"{least}{number:,} {one if number == 1 else several or one + 's'}"
