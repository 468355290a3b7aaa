"""Bodies of benchmarks are as large as they say, and compress as they say."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bench.message_bodies import BODY_BYTES, FILE_ROWS, Bodies, write_bodies

ROWS = FILE_ROWS + 10


@pytest.mark.parametrize(
    ("kind", "least", "most"), [("random", 0.99, 1.01), ("compressible", 0, 0.1)]
)
def test_bodies_are_of_one_size_and_compress_as_they_say(
    tmp_path: Path, kind: Bodies, least: float, most: float
) -> None:
    write_bodies(tmp_path / "bodies", ROWS, kind)
    rows = pq.read_table(tmp_path / "bodies")
    values = rows["value"].to_pylist()
    assert rows["number"].to_pylist() == list(range(ROWS))
    assert {len(value) for value in values} == {BODY_BYTES}
    assert len(set(values)) == ROWS
    together = b"".join(values[:1_000])
    assert least <= len(zlib.compress(together)) / len(together) <= most
