"""An ingest that is hurt while it runs: the lake has each confirmed message once, for everybody.

Meanwhile a process of its own compacts and vacuums the lake, with a retention of minutes, and
another one reads it by several engines, none of which may ever see a wrong count or an error. In
the end delta-rs, DuckDB, polars and Spark have to count the same.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

from object_store import ObjectStore
from pipeline_chaos.faults import FAULTS, QUEUE, FaultyRun
from pipeline_chaos.ingesting import IngestProcess, numbers_in
from pipeline_chaos.lake_counts import Count, counts_of
from pipeline_chaos.side_process import SideProcess

# The shortest there is: what is deleted within a run should be deleted.
VACUUM_HOURS: Final = 0.05


class Chaos(FaultyRun):
    faults: tuple[str, ...] = (*FAULTS, "upkeep")

    def __init__(self, directory: Path, seed: int, *, on_store: bool = False) -> None:
        super().__init__(directory, seed)
        self._store: ObjectStore | None = None
        lake = str(directory / "lake")
        if on_store:
            (directory / "store").mkdir()
            self._store = ObjectStore(directory / "store")
            lake = self._store.url("lake")
        self.ingest = IngestProcess(directory, lake, self.options())
        self.readers = SideProcess("lake_readers", directory, lake)
        self.upkeep = SideProcess("lake_upkeep", directory, lake)
        self._kept_environment = dict(os.environ)

    def options(self) -> list[str]:
        return [
            "--url", self.urls(), "--queue", QUEUE, "--every-s", "0", "--compact-files", "6",
            "--vacuum-hours", str(VACUUM_HOURS),
        ]  # fmt: skip

    def urls(self) -> str:
        return f"http://127.0.0.1:{self.broker.http_port}"

    @property
    def job(self) -> IngestProcess:
        return self.ingest

    def prepare(self) -> None:
        """The publisher declares the stream, and the job makes the lake."""
        if self._store is not None:
            self._store.start()
            os.environ.update(self._store.environment)
        self.readers.start()
        self.upkeep.start()

    def progress(self) -> int:
        self.readers.check()
        self.upkeep.check()
        return self.ingest.commits()

    def outcome(self) -> Counter[int]:
        return numbers_in(self.ingest.lake)

    def finish(self) -> None:
        self.ingest.run_once()
        self.readers.stop()
        self.upkeep.stop()

    def check(self) -> int:
        arrived = super().check()
        counts = counts_of(self.ingest.lake)
        for name, count in counts.items():
            assert count == Count(arrived, arrived), f"{name} counts {count}, not {arrived}"
        return arrived

    def end(self) -> None:
        self.readers.kill()
        self.upkeep.kill()
        super().end()
        if self._store is not None:
            self._store.stop()
        os.environ.clear()
        os.environ.update(self._kept_environment)

    def _upkeep(self) -> None:
        """In the midst of a compaction or a vacuum, mostly; the readers go on."""
        self.upkeep.kill()
        self.upkeep.start()
