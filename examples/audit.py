"""Compares what nodes have on their disks: python audit.py a=/data/a b=/data/b"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from pyspark_warren.jobs import AuditOptions, audit

spark = SparkSession.builder.appName("audit").getOrCreate()
done = audit(spark, AuditOptions(nodes=",".join(sys.argv[1:])))
for one in done.differences:
    print(f"{one.kind}: {one.queue} {one.message_id} {one.copies}")
print("the copies are the same" if done.is_sound else "the copies are NOT the same")
