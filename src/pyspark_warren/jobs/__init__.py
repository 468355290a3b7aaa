"""The jobs that people run on queues, each a function of a SparkSession: `warren pipeline NAME`."""

from __future__ import annotations

from pyspark_warren.jobs.audit import Audited, AuditOptions, audit
from pyspark_warren.jobs.convert import Converted, ConvertOptions, convert
from pyspark_warren.jobs.dead_letters import DeadLetters, DeadLettersOptions, dead_letters
from pyspark_warren.jobs.ingest import Ingested, IngestOptions, ingest
from pyspark_warren.jobs.replay import Replayed, ReplayOptions, replay
from pyspark_warren.jobs.telemetry import TelemetryOptions, telemetry
from pyspark_warren.jobs.watching import Progress, Watch
from pyspark_warren.jobs.windows import Telemetry

__all__ = [
    "AuditOptions", "Audited", "ConvertOptions", "Converted", "DeadLetters", "DeadLettersOptions",
    "IngestOptions", "Ingested", "Progress", "ReplayOptions", "Replayed", "Telemetry",
    "TelemetryOptions", "Watch", "audit", "convert", "dead_letters", "ingest", "replay",
    "telemetry",
]  # fmt: skip
