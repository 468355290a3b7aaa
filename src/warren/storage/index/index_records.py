"""Chooses who encodes and scans records: compiled (`_index_records.pyx`), or the plain twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren._pure import PURE

if TYPE_CHECKING:
    from warren.storage.index._index_records import (
        EMBEDDED,
        EntryReader,
        Record,
        RecordBuffer,
        scan,
    )
else:
    try:
        if PURE:
            raise ImportError("WARREN_PURE=1")
        from warren.storage.index import _index_records as _backend
    except ImportError:
        from warren.storage.index import _index_records_py as _backend
    EMBEDDED = _backend.EMBEDDED
    Record = _backend.Record
    RecordBuffer = _backend.RecordBuffer
    EntryReader = _backend.EntryReader
    scan = _backend.scan

__all__ = ["EMBEDDED", "EntryReader", "Record", "RecordBuffer", "scan"]
