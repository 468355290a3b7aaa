"""Early frames: what a ring sends to a member here before this node has read that there is one.

A queue and its group are stored together, and nodes read of them a moment apart. The first may
have sent its neighbour something by then. It is kept for that neighbour: otherwise it would find
out only from the next frame, and publishers would wait for one round more.

There is a limit to what is kept. The member hears then which streams it has missed something of,
and asks for them anew.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from warren.replication.gm.frames import Activity, Catchup, Frame, Payload, encode_frame

EARLY_BYTES_MAX: Final = 4_194_304
"""Bytes of all frames kept. The oldest group loses its frames first."""
FRAME_BYTES: Final = 200
"""What a frame costs beside its bytes."""
MISSED_MAX: Final = 10_000
"""Groups whose missed streams are remembered, the oldest forgotten first."""


class Early(NamedTuple):
    frames: list[bytes]
    missed: dict[str, int]
    """The last stream of each sender that frames were dropped of."""


class EarlyFrames:
    def __init__(self) -> None:
        self._frames: OrderedDict[str, list[tuple[Frame, bytes]]] = OrderedDict()
        self._missed: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._size_bytes = 0

    def keep(self, frame: Frame, payloads: tuple[Payload, ...]) -> None:
        """Keep a frame of a group in which this node has no part that it knows of."""
        body = b"".join(encode_frame(frame, payloads))  # what it came with may be much more
        self._frames.setdefault(frame.uid, []).append((frame, body))
        self._size_bytes += len(body) + FRAME_BYTES
        while self._size_bytes > EARLY_BYTES_MAX:
            self._drop(next(iter(self._frames)))

    def take(self, uid: str) -> Early:
        """Return what came for this group, and forget it."""
        frames = self._forget(uid)
        return Early([body for _, body in frames], self._missed.pop(uid, {}))

    def _drop(self, uid: str) -> None:
        missed = self._missed.setdefault(uid, {})
        for frame, _ in self._forget(uid):
            if isinstance(frame, Activity | Catchup):
                missed[frame.sender] = max(missed.get(frame.sender, 0), frame.stream)
        if len(self._missed) > MISSED_MAX:
            self._missed.popitem(last=False)

    def _forget(self, uid: str) -> list[tuple[Frame, bytes]]:
        frames = self._frames.pop(uid, [])
        self._size_bytes -= sum(len(body) + FRAME_BYTES for _, body in frames)
        return frames
