"""Findings in the files of a node: what `stores` and `stream_stores` tell, and `audit` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

QUEUE: Final = "queue"
MESSAGE: Final = "message"
LOST: Final = "lost"
STREAM: Final = "stream"
CHUNK: Final = "chunk"
ID: Final = "id"
DAMAGE: Final = "damage"
FILES: Final = "files"
OF_QUEUES: Final = (QUEUE, MESSAGE, LOST, STREAM, CHUNK, ID)
"""Kinds of findings that belong to one queue or stream."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is on a node's disk.

    QUEUE and STREAM say that there is one. MESSAGE is a message of a queue, LOST one whose body
    cannot be read; `sequence` is its place. CHUNK is a chunk of a stream with `records` records,
    `sequence` the offset of the first; ID a message id in it. DAMAGE says in `text` what cannot be
    read, FILES how large the files of queues are.
    """

    kind: str
    vhost: str
    queue: str = ""
    sequence: int = -1
    hash: str = ""
    message_id: str | None = None
    bytes: int = 0
    records: int = 0
    text: str = ""
