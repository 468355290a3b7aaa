"""What a job lets be known while it runs, and how it is asked to stop.

A job is a function that may run for a second or for months, in a notebook or under a command. It
tells a `Watch` how it goes and asks it whether to go on; who watches decides what to make of it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: so many rows done, of so many if that is known."""

    rows: int
    total: int | None = None
    detail: str = ""
    unit: str = "messages"


@dataclass(slots=True)
class Watch:
    """Says nothing, and is never told to stop unless somebody calls `stop`."""

    stopping: threading.Event = field(default_factory=threading.Event)

    def say(self, text: str) -> None:
        """Something happened that a person would want to know."""

    def advance(self, progress: Progress) -> None:
        """The job has come further."""

    def begin(self) -> None:
        """What is counted begins here; what came before was preparation."""

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self.stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()
