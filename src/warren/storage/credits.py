"""How many bytes may be on their way to the disk before publishers have to wait."""

from __future__ import annotations

from typing import Final

from warren.flow.credit import Credit
from warren.flow.states import Stage

PAGING_BYTES_MAX: Final = 32 * 1_048_576


def paging_credit() -> Credit:
    return Credit(PAGING_BYTES_MAX, Stage.STORE)
