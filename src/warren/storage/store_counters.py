"""What a message store counts, for status pages and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StoreCounters:
    records_written: int = 0
    bytes_written: int = 0
    batches_failed: int = 0
    records_read: int = 0
    records_corrupt: int = 0
    files_deleted: int = 0
    compactions: int = 0
    bytes_compacted: int = 0
