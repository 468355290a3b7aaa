"""A Spark session for trying things on one machine, without a word about Java or Python's path."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from pyspark_warren.java import ensure_java
from pyspark_warren.source import register
from pyspark_warren.worker_python import use_this_python

_HOST: Final = "127.0.0.1"
_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": _HOST,
    "spark.driver.bindAddress": _HOST,
    "spark.sql.shuffle.partitions": "2",
}


def local_session(name: str = "warren") -> SparkSession:
    """The session there is, or one that runs in this machine's processes, with the source `warren`.

    Raises
    ------
    JavaMissing
        If there is no Java that Spark would run on.
    """
    ensure_java()
    use_this_python()
    builder = SparkSession.builder.master("local[2]").appName(name)
    session = builder.config(map=_SETTINGS).getOrCreate()
    register(session)
    return session
