"""How many bytes may be on their way to the disk before publishers have to wait.

    published ──► journal, or a message store ──► segments
    └─ journal, store ──────┘                    │
    └─ index ────────────────────────────────────┘
    └─ paging ───────────────────────────────────┘   of queues that save memory

What waits for a commit is answered when it is safe, so the bound is also one on how long a confirm
takes when the disk is slow. What waits for its segment is in memory and in the journal, which must
not grow for ever. In a queue that saves memory, all of that should not be there in the first place.
"""

from __future__ import annotations

from typing import Final

from warren.flow.credit import Credit
from warren.flow.states import Stage

JOURNAL_BYTES_MAX: Final = 32 * 1_048_576
STORE_BYTES_MAX: Final = 64 * 1_048_576
INDEX_BYTES_MAX: Final = 128 * 1_048_576
PAGING_BYTES_MAX: Final = 32 * 1_048_576
BYTES_MIN: Final = 4 * 1_048_576
LIMIT_SHARE: Final = 8
"""Of the memory limit, each may have one part in so many."""


def fitting(bytes_max: int, memory_limit_bytes: int) -> int:
    return max(BYTES_MIN, min(bytes_max, memory_limit_bytes // LIMIT_SHARE))


def journal_credit() -> Credit:
    return Credit(JOURNAL_BYTES_MAX, Stage.QUEUE)


def store_credit() -> Credit:
    return Credit(STORE_BYTES_MAX, Stage.STORE)


def index_credit() -> Credit:
    return Credit(INDEX_BYTES_MAX, Stage.QUEUE)


def paging_credit() -> Credit:
    return Credit(PAGING_BYTES_MAX, Stage.STORE)
