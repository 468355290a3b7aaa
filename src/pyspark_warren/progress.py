"""Progress of a query: how far behind its streams it is, as the broker counts it.

Spark lets only sources in Java put metrics into `StreamingQueryProgress`; `sources[0].metrics` of
one in Python stays empty. What it does show of ours is `latestOffset`, as text. So the source puts
its metrics there, beside the offsets, under the one name that no queue can have, and `progress`
takes them out again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from pyspark_warren.http_client import Unread

# No queue is called that.
METRICS: Final = ""
BEHIND: Final = "offsetsBehindLatest"
BYTES_BEHIND: Final = "bytesBehindLatest"
OLDEST_AGE_MS: Final = "oldestUnreadAgeMs"

Metrics = dict[str, Any]


def metrics_of(
    latest: Mapping[str, int], ends: Mapping[str, int], unread: Mapping[str, Unread | None]
) -> dict[str, Metrics]:
    """The metrics of each queue, given what is unread behind the end of a batch."""
    now_ms = time.time_ns() // 1_000_000
    metrics: dict[str, Metrics] = {}
    for queue, end in latest.items():
        shown: Metrics = {BEHIND: max(0, end - ends[queue])}
        rest = unread.get(queue)
        if rest is not None:
            shown[BEHIND] = rest.records
            shown[BYTES_BEHIND] = rest.bytes
            if rest.oldest_ms is not None:
                shown[OLDEST_AGE_MS] = max(0, now_ms - rest.oldest_ms)
        elif not shown[BEHIND]:
            shown[BYTES_BEHIND] = 0
        metrics[queue] = shown
    return metrics


def progress(query: StreamingQuery | Mapping[str, Any] | None) -> Metrics | None:
    """
    Return how far behind its streams a query is, after its last batch.

    Parameters
    ----------
    query : StreamingQuery or StreamingQueryProgress
        A query; or its `lastProgress`, one of its `recentProgress`, or the `progress` of an event
        that a `StreamingQueryListener` gets.

    Returns
    -------
    dict or None
        ``minOffsetsBehindLatest``, ``avgOffsetsBehindLatest``, ``maxOffsetsBehindLatest``,
        ``bytesBehindLatest`` and ``oldestUnreadAgeMs`` of all queues, and ``queues`` with the
        figures of each. None if the progress does not say: there was no batch yet, the batch is the
        first after a restart, for which Spark asks no source, or this Spark is older than 4.2.
    """
    last: Any = getattr(query, "lastProgress", query)
    if last is None:
        return None
    queues: dict[str, Metrics] = {}
    for source in last["sources"]:
        queues |= _metrics_in(source["latestOffset"])
    if not queues:
        return None
    behind = [shown[BEHIND] for shown in queues.values()]
    return {
        "minOffsetsBehindLatest": min(behind),
        "avgOffsetsBehindLatest": sum(behind) / len(behind),
        "maxOffsetsBehindLatest": max(behind),
        BYTES_BEHIND: sum(shown.get(BYTES_BEHIND, 0) for shown in queues.values()),
        OLDEST_AGE_MS: max(shown.get(OLDEST_AGE_MS, 0) for shown in queues.values()),
        "queues": queues,
    }


def _metrics_in(offset: object) -> dict[str, Metrics]:
    """Those that a source has put into its latest offset; Spark shows it as text, or decoded."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    found = offset.get(METRICS, {}) if isinstance(offset, dict) else {}
    return found if isinstance(found, dict) else {}
