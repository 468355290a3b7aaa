"""What streams need of whoever runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warren.flow.credit import Credit
from warren.storage.disk.committer import Committer
from warren.storage.disk.files import Disk
from warren.storage.disk.workers import Workers


@dataclass(frozen=True, slots=True)
class StreamHost:
    """`now_ms` is the time of day; `credit` is charged with what is not safe yet."""

    disk: Disk
    workers: Workers
    call_soon: Callable[[Callable[[], None]], object]
    now_ms: Callable[[], int]
    credit: Credit
    make_committer: Callable[[], Committer]
    on_failure: Callable[[OSError], None]
