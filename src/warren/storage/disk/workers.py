"""What storage asks of whoever owns the event loop: threads for the disk, and tasks.

Storage decides what has to be done and never how time passes, so that tests and simulations can
do one thing after another and stop between any two.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    def run_in_thread(self, function: Callable[[], T]) -> Awaitable[T]:
        """Call it where blocking is allowed; a bounded number of threads does this."""

    def spawn(self, work: Coroutine[object, object, None]) -> Awaitable[None]:
        """Run it on the loop beside everything else; whoever wants may await its end."""

    def pause(self, seconds: float) -> Awaitable[None]: ...
