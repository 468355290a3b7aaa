"""Looking into a stream without reading it, as one looks into any queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from warren.streams.chunks import decode_chunk, with_offsets
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.streams.log import StreamLog


async def browse(log: StreamLog, position: int, limit: int, bytes_max: int) -> list[QueuedMessage]:
    """Records from the `position`th on, of one stretch."""
    segments, wanted = log.safe_segments(), log.first_offset + position
    find = partial(log.reader.find_stretch, segments, wanted, bytes_max)
    stretch = await log.workers.run_in_thread(find)
    shown: list[QueuedMessage] = []
    if stretch is None:
        return shown
    for at, header in stretch.chunks:
        messages = with_offsets(decode_chunk(stretch.data, at), header.first_offset)
        for offset, message in enumerate(messages, header.first_offset):
            if offset < wanted:
                continue
            if len(shown) == limit or bytes_max <= 0 or offset >= log.end_offset:
                return shown
            bytes_max -= len(message.body)
            shown.append(QueuedMessage(message, offset, 0))
    return shown
