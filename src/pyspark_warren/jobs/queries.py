"""Runs a streaming query to its end, or until somebody asks to stop.

A stop waits for the batch under way, for a while: nothing would be lost without it, since batches
are run again, but work would. Whatever ends the query is told in one line of its own words, not in
the JVM's.

If Spark lost a Python worker (`lost_workers`), the query is started again: it goes on where it was.
It is given up when that happens time and again and no batch gets done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs.lost_workers import SPARK_ERRORS, TRIES_MAX, is_worker_lost
from pyspark_warren.jobs.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final = 0.5
BATCH_PATIENCE_S: Final = 60.0
# What an error of Python looks like by the time it has been through the JVM.
_OWN_ERROR: Final = re.compile(r"^(?:[\w.]*\.)?(\w+): (.+)$")
_JAVA_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+\w+: ")

T = TypeVar("T")
Progress = Mapping[str, Any]
"""What Spark says of a batch: `StreamingQueryProgress`."""


def _ignore(progress: Progress) -> None:
    pass


class JobFailed(WarrenError):
    """A job could not go on; the text says why."""


def patiently(action: Callable[[], T]) -> T:
    """Does it again if a worker of Spark's was lost; what it does must bear that."""
    for _ in range(TRIES_MAX - 1):
        try:
            return action()
        except SPARK_ERRORS as error:
            if not is_worker_lost(error):
                raise
    return action()


def collected(make: Callable[[], DataFrame]) -> list[Row]:
    """Collect the rows of a DataFrame. Raises JobFailed if Spark cannot."""
    try:
        return patiently(lambda: make().collect())
    except SPARK_ERRORS as error:
        raise JobFailed(reason_of(error)) from error


def run_query(
    start: Callable[[], StreamingQuery], watch: Watch, show: Callable[[Progress], None] = _ignore
) -> None:
    """Run a query to its end; `show` is told of each batch that is done.

    Raises
    ------
    JobFailed
        If the query fails.
    """
    shown = _Shown(show)
    tries = 0
    while tries < TRIES_MAX and not watch.is_stopping:
        query: StreamingQuery | None = None
        try:
            query = start()
            _run(query, watch, shown)
            return
        except SPARK_ERRORS as error:
            if not is_worker_lost(error):
                if isinstance(error, StreamingQueryException):
                    raise JobFailed(reason_of(error)) from error
                raise
        has_come_further = query is not None and query.recentProgress
        tries = 1 if has_come_further else tries + 1
        watch.say("Spark lost a Python worker; going on")
    if tries == TRIES_MAX:
        raise JobFailed(f"Spark lost Python workers, {TRIES_MAX} times by now; is memory short?")


class _Shown:
    """Tells of each batch once, though the query is asked again and again."""

    def __init__(self, show: Callable[[Progress], None]) -> None:
        self._show = show
        self._newest = -1

    def look(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            if progress["batchId"] > self._newest and progress["numInputRows"]:
                self._newest = progress["batchId"]
                self._show(progress)


def _run(query: StreamingQuery, watch: Watch, shown: _Shown) -> None:
    try:
        while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]
            shown.look(query)
            if watch.is_stopping:
                watch.say("stopping when the batch under way is done")
                _finish_batch(query)
                query.stop()
                return
        shown.look(query)
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
    text = text.split("\n\nJVM stacktrace", 1)[0].split("\n\tat ", 1)[0].strip()
    if isinstance(error, Py4JJavaError):  # "An error occurred while calling o1.start.\n: ..."
        return _JAVA_CLASS.sub("", (text.partition("\n: ")[2] or text).partition("\n")[0])
    return text
