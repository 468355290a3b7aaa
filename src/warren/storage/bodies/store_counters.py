"""What the storage counts, for status pages and tests."""

from __future__ import annotations

from dataclasses import dataclass, fields


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


@dataclass(slots=True)
class StorageCounts:
    """What the storage of virtual hosts has done since the start."""

    messages_read: int = 0
    messages_written: int = 0
    store_reads: int = 0
    store_writes: int = 0
    commits: int = 0
    bytes_written: int = 0

    def add(self, other: StorageCounts) -> None:
        for field in fields(self):
            grown = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, grown)
