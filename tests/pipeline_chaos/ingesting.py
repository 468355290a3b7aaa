"""A real `warren pipeline ingest`, and what its lake has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from lake_tables import batches_in, table_in
from pipeline_chaos.job_process import JobProcess


class IngestProcess(JobProcess):
    def __init__(self, directory: Path, options: list[str]) -> None:
        self.lake = directory / "lake"
        super().__init__("ingest", directory, ["--lake", str(self.lake), *options])

    def run_once(self) -> None:
        """Take in all that is there, to the end."""
        self.run_to_end("--once")

    def commits(self) -> int:
        return commits_in(self.lake)


def commits_in(lake: Path) -> int:
    """Return the number of batches that were committed; 0 if there is no lake yet."""
    return batches_in(lake)


def numbers_in(lake: Path) -> Counter[int]:
    """Count the bodies in the table, as delta-rs reads it."""
    return Counter(int(value) for value in table_in(lake)["value"].to_pylist())
