"""A Spark session to measure with, and what it and its Python workers use of processors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# In /proc/PID/stat, counted from behind the name: parent, own time, and that of ended children.
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)


@contextmanager
def spark_session(directory: Path, cores: int = 2) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from pyspark_warren.java import ensure_java
    from pyspark_warren.worker_python import use_this_python

    ensure_java()
    use_this_python()
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("warren bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    try:
        yield session
    finally:
        session.stop()


def spark_pid(session: SparkSession) -> int:
    """Of its Java process."""
    jvm = session.sparkContext._jvm
    assert jvm is not None, "the session runs"
    return int(jvm.java.lang.ProcessHandle.current().pid())


def cpu_s_of_tree(pid: int) -> float:
    """Of a process and all below it, those that have ended included."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[_PARENT])
        seconds[int(entry.name)] = sum(map(int, fields[_TIMES])) / _TICKS_PER_S
    return sum(s for process, s in seconds.items() if _is_below(process, pid, parents))


def _is_below(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process not in {ancestor, 0}:
        process = parents.get(process, 0)
    return process == ancestor
