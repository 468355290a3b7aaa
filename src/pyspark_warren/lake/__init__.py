"""A lake: the tables `messages` and `quarantine`, where and how their files are kept and read."""

from __future__ import annotations

from typing import Final

MESSAGES: Final = "messages"
QUARANTINE: Final = "quarantine"
TABLES: Final = (MESSAGES, QUARANTINE)
QUEUE: Final = "queue"
HOUR: Final = "hour"
PARTITION_COLUMNS: Final = (QUEUE, HOUR)
HOUR_FORMAT: Final = "%Y-%m-%d-%H"
# Added by a decoder: why a body did not decode. Rows that have one belong to the quarantine.
REASON: Final = "reason"
# Beside the tables: where files of plain Parquet are written before they are moved.
STAGING: Final = "_staging"
# Beside the tables: how far the streams are read, unless --checkpoint says otherwise.
CHECKPOINT: Final = "_checkpoint"
