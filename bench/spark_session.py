"""A Spark session to measure with, and what it and its Python workers use of the machine."""

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
    return sum(sum(map(int, stat[_TIMES])) for stat in _tree(pid).values()) / _TICKS_PER_S


def memory_mib_of_tree(pid: int) -> dict[int, float]:
    """What a process has in memory, and each below it; of what some share, each has its part."""
    return {each: _memory_kb(each) / 1024 for each in _tree(pid)}


def _memory_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has just ended
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _tree(pid: int) -> dict[int, list[str]]:
    """What the kernel says of a process and all below it."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stats[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
    parents = {process: int(stat[_PARENT]) for process, stat in stats.items()}
    return {each: stat for each, stat in stats.items() if _is_below(each, pid, parents)}


def _is_below(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process not in {ancestor, 0}:
        process = parents.get(process, 0)
    return process == ancestor
