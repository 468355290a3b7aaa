"""An ingest that is hurt while it runs: the lake has each confirmed message once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pipeline_chaos.faults import QUEUE, FaultyRun
from pipeline_chaos.ingesting import IngestProcess, numbers_in


class Chaos(FaultyRun):
    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        url = f"http://127.0.0.1:{self.broker.http_port}"
        options = ["--url", url, "--queue", QUEUE, "--every-s", "0", "--compact-files", "6"]
        self.ingest = IngestProcess(directory, options)

    @property
    def job(self) -> IngestProcess:
        return self.ingest

    def prepare(self) -> None:
        """The publisher declares the stream, and the job makes the lake."""

    def progress(self) -> int:
        return self.ingest.commits()

    def outcome(self) -> Counter[int]:
        return numbers_in(self.ingest.lake)

    def finish(self) -> None:
        self.ingest.run_once()
