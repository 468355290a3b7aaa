"""What a broker was doing when it was killed, and how often it did it: read from its debug log.

A kill between two things shows little. So that nobody has to believe that compactions, checkpoints
and starts were hit, they are counted: those that took place, and those that a kill cut short.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# What the log says at the beginning of each kind of work, and, if it takes time, at its end.
BEGINS: Final = {
    "compaction": re.compile(r"compaction started"),
    "checkpoint": re.compile(r"checkpoint started"),
    "recovery": re.compile(r"recovery started"),
    "paging": re.compile(r"messages are moved to disk"),
    "segment": re.compile(r"segment created"),
}
ENDS: Final = {
    "compaction": re.compile(r"compaction finished"),
    "checkpoint": re.compile(r"checkpoint finished"),
    "recovery": re.compile(r"recovery finished"),
    "paging": re.compile(r"messages may stay in memory"),
}


@dataclass
class Activity:
    """Of one broker, over all its lives."""

    log: Path
    done: Counter[str] = field(default_factory=Counter)
    cut_short: Counter[str] = field(default_factory=Counter)
    _offset: int = 0

    def under_way(self) -> set[str]:
        """What has begun since the last `ended` and is not over."""
        begun: set[str] = set()
        for line in self._fresh():
            begun |= {kind for kind, text in BEGINS.items() if kind in ENDS and text.search(line)}
            begun -= {kind for kind, text in ENDS.items() if text.search(line)}
        return begun

    def ended(self, is_killed: bool) -> set[str]:
        """The process is gone; returns what it left unfinished."""
        lines = self._fresh()
        for kind, text in BEGINS.items():
            self.done[kind] += sum(1 for line in lines if text.search(line))
        unfinished = self.under_way() if is_killed else set()
        self.cut_short.update(unfinished)
        self._offset = self._size()
        return unfinished

    def _size(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _fresh(self) -> list[str]:
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._offset)
            return file.read().decode(errors="replace").splitlines()

    def __str__(self) -> str:
        kinds = (
            f"{kind}: {self.done[kind]}"
            + (f" ({self.cut_short[kind]} cut short)" if kind in ENDS else "")
            for kind in BEGINS
        )
        return ", ".join(kinds)
