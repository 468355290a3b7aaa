"""Runs a streaming query to its end, or until somebody asks to stop.

A stop waits for the batch under way, for a while: nothing would be lost without it, since batches
are run again, but work would. Whatever ends the query is told in one line of its own words, not in
the JVM's.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException, StreamingQueryException

from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final = 0.5
BATCH_PATIENCE_S: Final = 60.0
# What an error of Python looks like by the time it has been through the JVM.
_OWN_ERROR: Final = re.compile(r"^(?:[\w.]*\.)?(\w+): (.+)$")


class JobFailed(WarrenError):
    """A job could not go on; the text says why."""


def run_query(query: StreamingQuery, watch: Watch) -> None:
    """Raises JobFailed if the query fails."""
    try:
        while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]
            if watch.is_stopping:
                watch.say("stopping when the batch under way is done")
                _finish_batch(query)
                query.stop()
                return
    except StreamingQueryException as error:
        raise JobFailed(reason_of(error)) from error
    finally:
        if query.isActive:
            query.stop()


def _finish_batch(query: StreamingQuery) -> None:
    """Waits for the next batch to be done, or for there to be none."""
    deadline = time.monotonic() + BATCH_PATIENCE_S
    before = _batch(query)
    while query.isActive and query.status["isTriggerActive"] and _batch(query) == before:
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S / 5)


def _batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else int(progress["batchId"])


def reason_of(error: BaseException) -> str:
    """What our own code, or Spark, has to say, without stacks and codes."""
    text = str(error)
    for line in reversed(text.splitlines()):
        match = _OWN_ERROR.match(line.strip())
        if match and line.strip().startswith("pyspark_warren."):
            return match[2]
    if isinstance(error, PySparkException):
        return text.split("\n\nJVM stacktrace", 1)[0].split("\n\tat ", 1)[0].strip()
    return text
