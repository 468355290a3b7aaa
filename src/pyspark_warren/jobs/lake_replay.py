"""Replays a lake: its messages are published in batches of offsets, queue after queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs.batch_lines import Batch, Lag
from pyspark_warren.jobs.queries import patiently
from pyspark_warren.jobs.replay_choice import COUNTED_COLUMNS, Choice, Routes
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.lake import MESSAGES
from pyspark_warren.lake.opening import find_table
from pyspark_warren.lake.reading import Slice, read_slices
from pyspark_warren.lake.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_warren.jobs.replay_state import ReplayState
    from pyspark_warren.lake.data_files import DataFile

# Each is opened for a batch that needs a part of it.
FILES_PER_BATCH: Final = 256


@dataclass(slots=True)
class LakeBatch:
    """Ranges of offsets of some queues, and where they are."""

    slices: list[Slice] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    offsets: int = 0


class LakeReplay:
    """Messages of one version of a lake's table, those that are not published yet.

    Raises
    ------
    InvalidOption
        If there are no messages in the lake.
    """

    def __init__(
        self, spark: SparkSession, lake: str, queues: list[str] | None, choice: Choice, tasks: int
    ) -> None:
        storage = Storage.of(lake)
        table = find_table(storage, MESSAGES)
        files = [] if table is None else table.files()
        schema = None if table is None else table.schema
        if not files or schema is None:
            raise InvalidOption(f"option lake: there are no messages in {lake}")
        self._spark = spark
        self._table = storage.below(MESSAGES)
        self._schema = schema
        self._choice = choice
        self._tasks = tasks
        self._files = [
            file
            for file in files
            if (queues is None or file.queue in queues) and choice.has_hour(file.hour)
        ]

    def routes(self, state: ReplayState) -> Routes:
        """Count what is not published yet, by where it would go."""
        slices = [part for batch in self._batches(state, None) for part in batch.slices]
        if not slices:
            return {}
        columns = self._schema.names if self._choice.where else COUNTED_COLUMNS
        return patiently(lambda: self._choice.routes(self._read(slices, columns)))

    def publish(
        self, sink: dict[str, str], state: ReplayState, offsets_max: int, watch: Watch
    ) -> None:
        """Publish batch after batch, until `watch` is told to stop."""
        if "value" not in self._schema.names:
            raise InvalidOption("option lake: it was made without --keep-value, so bodies are gone")
        done, total = 0, sum(batch.offsets for batch in self._batches(state, None))
        # The state moves while this goes on, so the batches are planned before.
        for number, batch in enumerate(list(self._batches(state, offsets_max))):
            if watch.is_stopping:
                return
            begun = time.monotonic()
            patiently(lambda chosen=batch: self._publish(sink, chosen))  # type: ignore[misc]
            state.advance(batch.ends)
            done += batch.offsets
            took = time.monotonic() - begun
            watch.batch(Batch(number, batch.offsets, took, Lag(total - done), unit="offsets"))
            watch.advance(Progress(done, total, unit="offsets"))

    def _publish(self, sink: dict[str, str], batch: LakeBatch) -> None:
        rows = self._read(batch.slices, self._schema.names)
        messages = self._choice.messages(rows)
        messages.write.format("warren").options(**sink).mode("append").save()

    def _read(self, slices: list[Slice], columns: tuple[str, ...] | list[str]) -> DataFrame:
        chosen = pa.schema([self._schema.field(name) for name in columns])
        return read_slices(self._spark, self._table, chosen, slices, self._tasks)

    def _batches(self, state: ReplayState, offsets_max: int | None) -> Iterator[LakeBatch]:
        """Yield what is left, in ranges of offsets; without a limit, all of a queue at once."""
        batch = LakeBatch()
        for queue in sorted({file.queue for file in self._files}):
            files = [file for file in self._files if file.queue == queue]
            at = state.positions.get(queue, 0)
            while True:
                left = [file for file in files if file.last_offset >= at]
                if not left:
                    break
                at = max(at, min(file.first_offset for file in left))
                room = None if offsets_max is None else offsets_max - batch.offsets
                end = _end(left, at, room)
                batch.slices += [_slice(file, at, end) for file in left if file.first_offset < end]
                batch.ends[queue] = end
                batch.offsets += end - at
                at = end
                if offsets_max is not None and _is_full(batch, offsets_max):
                    yield batch
                    batch = LakeBatch()
        if batch.slices:
            yield batch


def _end(left: list[DataFile], at: int, room: int | None) -> int:
    """Return where a range that begins at an offset ends, so that it needs not too many files."""
    last = max(file.last_offset for file in left) + 1
    if room is None:
        return last
    begun = sorted(file.first_offset for file in left if file.first_offset > at)
    crowd = len(left) - len(begun)
    if len(begun) > max(1, FILES_PER_BATCH - crowd):
        last = begun[max(1, FILES_PER_BATCH - crowd)]
    return min(last, at + max(1, room))


def _slice(file: DataFile, first: int, end: int) -> Slice:
    return Slice(file.path, file.queue, file.hour, first, end)


def _is_full(batch: LakeBatch, offsets_max: int) -> bool:
    return batch.offsets >= offsets_max or len(batch.slices) >= FILES_PER_BATCH
