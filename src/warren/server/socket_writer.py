"""Writing to a client without waiting for the end of the loop's turn.

A transport collects what is written and sends it when the loop comes round; until then it is
memory, and the client has nothing to do. While the transport has nothing queued, we may as well
hand the pieces to the kernel ourselves; only what the socket has no room for goes to the transport,
which then watches for room and tells us when we send more than the client reads.

What has to be encrypted is the transport's business from the start, and in one piece: each piece
would become a record of its own.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

# The kernel takes at most this many pieces at once (IOV_MAX).
PIECES_PER_WRITE_MAX: Final = 1024


def write_now(
    transport: asyncio.Transport, socket_fd: int, pieces: list[bytes | memoryview]
) -> None:
    """`socket_fd` is negative if the transport encrypts."""
    if socket_fd < 0:
        transport.write(b"".join(pieces))
        return
    if transport.get_write_buffer_size() == 0 and not transport.is_closing():
        pieces = _send(socket_fd, pieces)
    if pieces:
        transport.writelines(pieces)


def _send(socket_fd: int, pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Returns what the socket did not take. Its errors are the transport's to find."""
    try:
        sent = os.writev(socket_fd, pieces[:PIECES_PER_WRITE_MAX])
    except OSError:
        return pieces
    for position, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[position + 1 :]]
        sent -= len(piece)
    return []
