"""The newest messages of a queue that are older than a given one, wherever they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from warren.storage.index.segment import Segment
from warren.storage.queue.collecting import PIECE_MESSAGES_MAX, Piece, collect
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

MESSAGE = Message(b"", PropertyBlock(b"\0\0"), b"body")
LARGE = 5_000_000


def queued(sequence: int, size: int = 4, message: Message | None = MESSAGE) -> QueuedMessage:
    made = QueuedMessage(cast("Message", message), sequence, 0)
    made.size = size
    return made


class Disk:
    """A reader that brings two entries at a time, without bodies."""

    def __init__(self, sizes: dict[int, int], lost: frozenset[int] = frozenset()) -> None:
        self.sizes = sizes
        self.lost = lost

    def read(self, index: Any, span: tuple[int, int], bytes_max: int, done: Any) -> None:
        found = [s for s in sorted(self.sizes) if span[0] <= s < span[1]]
        done([queued(s, self.sizes[s], None) for s in found[:2]])

    def read_bodies(self, index: Any, entries: list[QueuedMessage], done: Any) -> None:
        done([None if entry.sequence in self.lost else MESSAGE for entry in entries])


def queue_of(**parts: Any) -> Any:
    nothing = {"returned": [], "front": deque(), "leaving": [], "back": deque()}
    nothing |= {"q3": deque(), "q2": deque()}
    delta = {"delta_start": 0, "delta_end": 0, "delta_count": 0}
    index = SimpleNamespace(segments={0: Segment(0)})
    return SimpleNamespace(**{**nothing, **delta, "index": index, **parts})


def collected(queue: Any, disk: Disk, below: int, *unacked: QueuedMessage) -> Piece:
    pieces: list[Piece] = []
    done: Callable[[Piece], None] = pieces.append
    collect(queue, cast("Any", disk), below, unacked, done)
    return pieces[0]


def numbers(piece: Piece) -> list[int]:
    return [entry.sequence for entry in piece.messages]


def test_from_the_tail_through_the_disk_to_what_clients_have() -> None:
    disk = Disk(dict.fromkeys(range(4, 9), 4))
    queue = queue_of(
        back=deque([queued(9), queued(11)]),
        delta_start=4, delta_end=9, delta_count=5,
        leaving=[queued(3)],
        front=deque([queued(2)]),
        returned=[(0, queued(0))],
    )  # fmt: skip
    below, found = 12, []
    while below:
        piece = collected(queue, disk, below, queued(1))
        found.append((piece.start, numbers(piece)))
        below = piece.start
    assert found == [(9, [9, 11]), (4, [4, 5, 6, 7, 8]), (3, [3]), (2, [2]), (0, [0, 1])]


def test_no_more_at_a_time_than_a_piece_takes() -> None:
    front = deque(queued(sequence) for sequence in range(3 * PIECE_MESSAGES_MAX))
    below = 2 * PIECE_MESSAGES_MAX + 7
    piece = collected(queue_of(front=front), Disk({}), below)
    assert numbers(piece) == list(range(PIECE_MESSAGES_MAX + 7, below))
    assert piece.start == PIECE_MESSAGES_MAX + 7


def test_large_bodies_are_read_for_the_newest_alone() -> None:
    disk = Disk(dict.fromkeys(range(6), LARGE))
    queue = queue_of(delta_start=0, delta_end=6, delta_count=6)
    piece = collected(queue, disk, 6)
    assert numbers(piece) == [4, 5]
    assert piece.start == 4
    assert numbers(collected(queue, disk, piece.start)) == [2, 3]


def test_what_is_lost_is_left_out_and_what_is_older_still_belongs_to_the_piece() -> None:
    disk = Disk(dict.fromkeys(range(4), 4), lost=frozenset({1, 2}))
    piece = collected(queue_of(delta_start=0, delta_end=4, delta_count=4), disk, 4)
    assert (piece.start, numbers(piece)) == (0, [0, 3])


def test_a_piece_is_cut_at_a_number() -> None:
    piece = collected(queue_of(front=deque(map(queued, (1, 3, 5)))), Disk({}), 9)
    piece.cut(3)
    assert (piece.start, numbers(piece)) == (3, [3, 5])
