"""Lines about batches: one for each batch of a job, with how far behind its streams the job is.

    batch 12: 20,000 messages in 3.1 s, 6,452/s; 1,200 behind (1.4 MB), the oldest 4 s old

The lag is the broker's own count of what is unread behind the batch, so it is right in the first
batch after a restart, too. A broker that does not answer costs the line its lag and the job
nothing: a line is for people, and no reason to stop.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark_warren.errors import WarrenError
from pyspark_warren.http_client import QueueClient

if TYPE_CHECKING:
    from pyspark_warren.options import SourceOptions

LAG_WITHIN_S: Final = 5.0
"""How long a job tries to learn its lag before it prints a line without it."""
_UNITS: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass(frozen=True, slots=True)
class Lag:
    """Number, bytes and age of what is unread, of all streams of a job."""

    records: int
    bytes: int | None = None
    oldest_age_ms: int | None = None

    def __str__(self) -> str:
        if not self.records:
            return "nothing behind"
        size = "" if self.bytes is None else f" ({shown_bytes(self.bytes)})"
        age = self.oldest_age_ms
        oldest = "" if age is None else f", the oldest {shown_age(age)} old"
        return f"{self.records:,} behind{size}{oldest}"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that is done. `detail` is what else a person would want to know of it."""

    number: int
    rows: int
    seconds: float
    lag: Lag | None = None
    unit: str = "messages"
    detail: str = ""

    def __str__(self) -> str:
        rate = self.rows / max(self.seconds, 0.001)
        line = f"batch {self.number}: {self.rows:,} {self.unit} in {self.seconds:.1f} s, "
        line += f"{rate:,.0f}/s"
        if self.detail:
            line += f", {self.detail}"
        return line if self.lag is None else f"{line}; {self.lag}"


def lag_of(source: SourceOptions, ends: Mapping[str, int]) -> Lag | None:
    """Return what is unread behind these offsets, or None if no node says so in time.

    Parameters
    ----------
    source
        The options of the job's source.
    ends
        For each stream the offset of the first record that the job has not read.
    """
    try:
        with QueueClient(source.endpoints, source.vhost, LAG_WITHIN_S) as client:
            return _lag(client, ends)
    except WarrenError:
        return None


def _lag(client: QueueClient, ends: Mapping[str, int]) -> Lag:
    records = size = 0
    is_size_known = True
    oldest_ms: int | None = None
    for queue, end in ends.items():
        unread = client.unread(queue, end)
        if unread is None:  # an old broker
            records += max(0, client.extent(queue).end - end)
            is_size_known = False
            continue
        records += unread.records
        size += unread.bytes
        if unread.oldest_ms is not None:
            oldest_ms = min(unread.oldest_ms, oldest_ms or unread.oldest_ms)
    now_ms = time.time_ns() // 1_000_000
    age_ms = None if oldest_ms is None else max(0, now_ms - oldest_ms)
    return Lag(records, size if is_size_known else None, age_ms)


def batch_of(progress: Mapping[str, Any], source: SourceOptions, detail: str = "") -> Batch:
    """Return a batch of a streaming query, from what Spark says of it once it is done.

    The lag is asked of the broker, behind the offsets where the batch ended.
    """
    ends: dict[str, int] = {}
    for read in progress["sources"]:
        ends |= offsets_of(read["endOffset"])
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    lag = lag_of(source, ends)
    return Batch(progress["batchId"], progress["numInputRows"], seconds, lag, detail=detail)


def offsets_of(shown: object) -> dict[str, int]:
    """Return the offsets by queue that Spark shows in a progress, as text or decoded; or none."""
    decoded = json.loads(shown) if isinstance(shown, str) else shown
    if not isinstance(decoded, dict):
        return {}
    return {queue: offset for queue, offset in decoded.items() if isinstance(offset, int)}


def shown_bytes(size: float) -> str:
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:g} bytes"


def shown_age(milliseconds: float) -> str:
    """Return an age in the largest unit that has a whole one: `4 s`, `3 min`, `2 h`, `5 d`."""
    seconds = milliseconds / 1000
    for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
