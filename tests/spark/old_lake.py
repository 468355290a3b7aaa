"""A lake as versions before Delta filled it: what their ingest did with each batch."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users have it

from pyspark_warren.jobs.decoding import decode
from pyspark_warren.jobs.ingest import HOUR_FORMAT
from pyspark_warren.lake import MESSAGES, QUARANTINE
from pyspark_warren.lake.batches import query_id


@dataclass
class OldIngest:
    """Fills a lake from a stream, by Spark's own writer and commits that move files into place."""

    spark: SparkSession
    root: Path
    url: str
    queue: str
    schema: str
    dies_at_batch: int = 1_000
    """Commits this batch and does no more: its files stay in `_staging`."""

    def run(self) -> None:
        options = {
            "url": self.url, "queue": self.queue, "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "10",
        }  # fmt: skip
        rows = self.spark.readStream.format("warren").options(**options).load()
        decoded = decode(rows, "json", self.schema)
        hour = F.date_format("timestamp", HOUR_FORMAT)
        writer = decoded.withColumn("hour", hour).writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", f"{self.root}/_checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()

    def _take(self, rows: DataFrame, number: int) -> None:
        name = f"{number:010d}"
        staging = f"_staging/{name}-{uuid.uuid4().hex[:8]}"
        is_bad = F.col("reason").isNotNull()
        good = rows.filter(~is_bad).drop("reason")
        for table, part in ((MESSAGES, good), (QUARANTINE, rows.filter(is_bad).drop("body"))):
            target = f"{self.root}/{staging}/{table}"
            part.write.partitionBy("queue", "hour").parquet(target)
        moves = []
        for index, path in enumerate(sorted((self.root / staging).rglob("*.parquet"))):
            below = path.relative_to(self.root / staging)
            moves.append((f"{staging}/{below}", f"{below.parent}/{name}-{index:05d}.parquet"))
        commit = {
            "name": name, "query": query_id(self.spark, f"{self.root}/_checkpoint"),
            "staging": staging, "rows": {}, "removals": [], "moves": moves,
        }  # fmt: skip
        (self.root / "_commits").mkdir(exist_ok=True)
        (self.root / "_commits" / f"{name}.json").write_text(json.dumps(commit))
        if number == self.dies_at_batch:
            raise RuntimeError("killed here")
        for source, goal in moves:
            (self.root / goal).parent.mkdir(parents=True, exist_ok=True)
            (self.root / source).rename(self.root / goal)
