"""How many bytes may be on their way to the disk before publishers have to wait.

    published ──► journal ──► segments
    └─ commit ─┘            │
    └─ index ───────────────┘
    └─ paging ──────────────┘   of queues that save memory

What waits for a commit is answered when it is safe, so the bound is also one on how long a confirm
takes when the disk is slow. What waits for its segment is in memory and in the journal, which must
not grow for ever. In a queue that saves memory, all of that should not be there in the first place.
"""

from __future__ import annotations

from typing import Final

from warren.flow.credit import Credit
from warren.flow.states import Stage

COMMIT_BYTES_MAX: Final = 32 * 1_048_576
INDEX_BYTES_MAX: Final = 128 * 1_048_576
PAGING_BYTES_MAX: Final = 32 * 1_048_576


def commit_credit() -> Credit:
    return Credit(COMMIT_BYTES_MAX, Stage.QUEUE)


def index_credit() -> Credit:
    return Credit(INDEX_BYTES_MAX, Stage.QUEUE)


def paging_credit() -> Credit:
    return Credit(PAGING_BYTES_MAX, Stage.STORE)
