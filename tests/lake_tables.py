"""Tables of a lake as delta-rs reads them: rows, batches, versions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from pyspark_warren.lake import MESSAGES, QUARANTINE


def table_in(lake: Path | str, name: str = MESSAGES) -> pa.Table:
    """Return all rows, by offset."""
    found = DeltaTable(f"{lake}/{name}").to_pyarrow_table()
    return found.sort_by([("queue", "ascending"), ("offset", "ascending")])


def offsets_in(lake: Path | str, name: str = MESSAGES) -> list[int]:
    return [int(offset) for offset in table_in(lake, name)["offset"].to_pylist()]


def batches_in(lake: Path | str) -> int:
    """Return the number of commits with rows, in both tables; 0 if there is no lake yet."""
    found = 0
    for name in (MESSAGES, QUARANTINE):
        if DeltaTable.is_deltatable(f"{lake}/{name}"):
            history = DeltaTable(f"{lake}/{name}").history()
            found += sum("warren.batch" in entry for entry in history)
    return found
