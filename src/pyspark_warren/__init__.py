"""Warren's queues as Spark DataFrames: the data source `warren`.

    spark.read.format("warren")         any queue, as it is now
    spark.readStream.format("warren")   streams, as they grow
    df.write.format("warren")           to an exchange, with confirms
    df.writeStream.format("warren")     the same, batch after batch

Spark looks for packages of such a name and takes their `DefaultSource`; where it does not find this
one, `register(spark)` tells it. `local_session()` makes a session to try it with. Options are
described at :class:`WarrenDataSource`.
"""

from __future__ import annotations

from pyspark_warren.errors import WarrenError
from pyspark_warren.progress import progress
from pyspark_warren.session import local_session
from pyspark_warren.source import WarrenDataSource, register

DefaultSource = WarrenDataSource

__all__ = [
    "DefaultSource", "WarrenDataSource", "WarrenError", "local_session", "progress", "register",
]  # fmt: skip
