"""A real `warren pipeline ingest`, and what its lake has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

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
    """The number of the newest batch, from 1 on; 0 if there is none."""
    names = [path.stem for path in (lake / "_commits").glob("[0-9]*.json")]
    return 1 + int(max(names)) if names else 0


def numbers_in(lake: Path) -> Counter[int]:
    """Bodies in the table, read file by file: whoever does not know the lake reads it like this."""
    counted: Counter[int] = Counter()
    for path in sorted((lake / "messages").rglob("*.parquet")):
        values = pq.ParquetFile(path).read(["value"]).column("value").to_pylist()
        counted.update(int(value) for value in values)
    return counted
