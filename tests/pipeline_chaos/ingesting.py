"""A real `warren pipeline ingest`, and what its lake has."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable

from lake_tables import batches_in
from pipeline_chaos.job_process import JobProcess
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.delta import DeltaLakeTable
from pyspark_warren.lake.storage import Storage


class IngestProcess(JobProcess):
    def __init__(
        self, directory: Path, lake: str, options: list[str], checkpoint: Path | None = None
    ) -> None:
        self.lake = lake
        # Not in the lake, which may be in an object store: Spark writes it by itself.
        self.checkpoint = checkpoint or directory / "checkpoint"
        given = ["--lake", lake, "--checkpoint", str(self.checkpoint), *options]
        super().__init__("ingest", directory, given)

    def run_once(self) -> None:
        """Take in all that is there, to the end."""
        self.run_to_end("--once")

    def commits(self) -> int:
        return newest_batch(self.lake, self.checkpoint)


def commits_in(lake: Path) -> int:
    """Return the number of batches that were committed; 0 if there is no lake yet."""
    return batches_in(lake)


def newest_batch(lake: str, checkpoint: Path) -> int:
    """Return the number of the newest batch in the table, from 1 on; 0 if there is none."""
    table = DeltaLakeTable.open(Storage.of(lake), MESSAGES)
    metadata = checkpoint / "metadata"
    if table is None or not metadata.exists() or not metadata.read_text():
        return 0
    newest = table.newest_batch(str(json.loads(metadata.read_text())["id"]))
    return 0 if newest is None else 1 + newest


def numbers_in(lake: str) -> Counter[int]:
    """Bodies in the table, as delta-rs reads it."""
    values = DeltaTable(f"{lake}/{MESSAGES}").to_pyarrow_table(columns=["value"])["value"]
    return Counter(int(value) for value in values.to_pylist())
