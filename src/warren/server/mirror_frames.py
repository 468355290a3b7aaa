"""Mirror frames on their way out: frames of all mirrored queues, gathered for each neighbour.

A frame of its own on the link costs both ends more than what is in it: a content header, a turn of
the receiver's machine. So frames for the same node that one decision brings are sent as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from warren.replication.gm.frames import Payload

TOGETHER_BYTES_MAX: Final = 1_048_576
"""Frames that are sent as one; only a single frame that is larger by itself is more."""


class MirrorFrames:
    """`send(node, body)` is given the frames for a node, in the order in which they were added."""

    def __init__(self, send: Callable[[str, bytes], None]) -> None:
        self._send = send
        self._gathered: dict[str, list[Payload]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, node: str, buffers: Sequence[Payload]) -> None:
        size = sum(map(len, buffers))
        gathered = self._sizes.get(node, 0)
        if gathered and gathered + size > TOGETHER_BYTES_MAX:
            self._send(node, b"".join(self._gathered.pop(node)))
            gathered = 0
        self._gathered.setdefault(node, []).extend(buffers)
        self._sizes[node] = gathered + size

    def flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, {}
            self._sizes = {}
            for node, buffers in gathered.items():
                self._send(node, b"".join(buffers))
