"""Parallelism of a session: how many tasks run at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# More cores than this are not looked for.
_TASKS_MAX: Final = 4_096


def parallelism_of(spark: SparkSession) -> int:
    """Return the default parallelism; with Spark Connect, too, where there is no SparkContext.

    No setting has it on a cluster, but `range` has as many partitions unless it is told otherwise.
    """
    numbers = spark.range(_TASKS_MAX).select(F.spark_partition_id().alias("partition"))
    return max(1, numbers.distinct().count())
