"""Flags in the header of a chunk."""

from __future__ import annotations

from struct import Struct
from typing import Final

from warren.storage.disk.checksum import crc32c
from warren.streams.chunk_format import SUMMED_BYTES

REDELIVERED: Final = 1
"""Its messages have been delivered before; only in snapshots of queues."""
WITHOUT_BODIES: Final = 2
WITHOUT_ROUTES: Final = 4
WITHOUT_PROPERTIES: Final = 8
"""Parts that were left out because the reader did not want them; only in answers (selecting.py)."""

_FLAGS_AT: Final = 52
_U32: Final = Struct("<I")


def with_flags(chunk: bytes, flags: int) -> bytes:
    """The same chunk, which has none, with these flags."""
    if not flags:
        return chunk
    head = chunk[:_FLAGS_AT] + _U32.pack(flags) + chunk[_FLAGS_AT + 4 : SUMMED_BYTES]
    return head + _U32.pack(crc32c(head)) + chunk[SUMMED_BYTES + 4 :]
