"""Early frames: what a ring sends to a member here before this node has read that there is one.

A queue and its group are stored together, and nodes read of them a moment apart. The first may
have sent its neighbour something by then. It is kept for that neighbour: otherwise it would find
out only from the next frame, and publishers would wait for one round more.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

EARLY_BYTES_MAX: Final = 4_194_304
"""Bytes of all frames kept. The oldest group loses its frames first; its ring sends them again."""
FRAME_BYTES: Final = 200
"""What a frame costs beside its bytes."""


class EarlyFrames:
    def __init__(self) -> None:
        self._frames: OrderedDict[str, list[bytes]] = OrderedDict()
        self._size_bytes = 0

    def keep(self, uid: str, body: bytes) -> None:
        """Keep a frame of a group in which this node has no part that it knows of."""
        self._frames.setdefault(uid, []).append(body)
        self._size_bytes += len(body) + FRAME_BYTES
        while self._size_bytes > EARLY_BYTES_MAX:
            self.take(next(iter(self._frames)))

    def take(self, uid: str) -> list[bytes]:
        """Return the frames of this group, and forget them."""
        frames = self._frames.pop(uid, [])
        self._size_bytes -= sum(len(body) + FRAME_BYTES for body in frames)
        return frames
