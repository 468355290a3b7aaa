"""Frames of mirrored queues for the same node are sent as one, up to a size."""

from __future__ import annotations

from warren.server.mirror_frames import TOGETHER_BYTES_MAX, MirrorFrames


def test_frames_for_a_node_go_together_and_in_order() -> None:
    sent: list[tuple[str, bytes]] = []
    frames = MirrorFrames(lambda node, body: sent.append((node, body)))
    frames.add("b", [b"one", memoryview(b"two")])
    frames.add("c", [b"three"])
    frames.add("b", [b"four"])
    assert sent == []
    frames.flush()
    assert sent == [("b", b"onetwofour"), ("c", b"three")]
    frames.flush()
    assert len(sent) == 2


def test_no_more_go_together_than_the_limit() -> None:
    sent: list[int] = []
    frames = MirrorFrames(lambda node, body: sent.append(len(body)))
    for size in (TOGETHER_BYTES_MAX - 1, 1, 1, 2 * TOGETHER_BYTES_MAX, 5):
        frames.add("b", [bytes(size)])
    frames.flush()
    assert sent == [TOGETHER_BYTES_MAX, 1, 2 * TOGETHER_BYTES_MAX, 5]
