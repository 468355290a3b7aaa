"""Watching a job: what it tells while it runs, and how it is asked to stop.

A job is a function that may run for a second or for months, in a notebook or under a command. It
tells a `Watch` how far it is and asks the watch whether to go on; each kind of watch decides what
to show of that.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark_warren.jobs.batch_lines import Batch


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: the rows that are done, and how many there are in all if that is known."""

    rows: int
    total: int | None = None
    detail: str = ""
    unit: str = "messages"


@dataclass(slots=True)
class Watch:
    """Shows nothing, and lets the job run until `stop` is called."""

    stopping: threading.Event = field(default_factory=threading.Event)

    def say(self, text: str) -> None:
        """Tell a person something that happened."""

    def advance(self, progress: Progress) -> None:
        """Tell how far the job has come."""

    def batch(self, batch: Batch) -> None:
        """Tell that a batch is done; a command prints one line for each."""
        self.say(str(batch))

    def begin(self) -> None:
        """Start counting rates here; what came before was preparation."""

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self.stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self.stopping.is_set()
