"""A long answer, cut into pieces of whole chunks however it comes."""

from __future__ import annotations

import pytest

from pyspark_warren import chunk_pieces
from pyspark_warren.chunk_pieces import BrokenOff, whole_chunks
from pyspark_warren.errors import MalformedAnswer
from warren.streams.chunks import encode_chunk
from warren.wire.codec import Message, PropertyBlock

CHUNKS = [
    b"".join(encode_chunk([Message(b"\0\0", PropertyBlock(b"\0\0"), b"x" * n)], n, 0))
    for n in range(10)
]


class Arriving:
    """Bytes that come a few at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data = data
        self.step = step

    def read_into(self, place: memoryview) -> int:
        count = min(self.step, len(place))
        piece, self.data = self.data[:count], self.data[count:]
        place[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize("step", [1, 63, 64, 100, 1_000, 10_000])
def test_pieces_are_whole_chunks_and_together_everything(step: int) -> None:
    pieces = [bytes(piece) for piece in whole_chunks(Arriving(b"".join(CHUNKS), step).read_into)]
    assert b"".join(pieces) == b"".join(CHUNKS)
    ends = {sum(len(chunk) for chunk in CHUNKS[:n]) for n in range(11)}
    position = 0
    for piece in pieces:
        position += len(piece)
        assert position in ends


def test_nothing_is_no_piece() -> None:
    assert list(whole_chunks(Arriving(b"", 1).read_into)) == []


@pytest.mark.parametrize("piece_bytes", [1, 100, 300])
def test_a_chunk_longer_than_a_piece_is_one_all_the_same(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(chunk_pieces, "PIECE_BYTES", piece_bytes)
    pieces = [bytes(piece) for piece in whole_chunks(Arriving(b"".join(CHUNKS), 64).read_into)]
    assert b"".join(pieces) == b"".join(CHUNKS)
    assert len(pieces) >= 5


@pytest.mark.parametrize("data", [CHUNKS[3][:-1], CHUNKS[3] + b"WRN"])
def test_an_answer_that_ends_within_a_chunk_is_broken_off(data: bytes) -> None:
    with pytest.raises(BrokenOff):
        list(whole_chunks(Arriving(data, 64).read_into))


@pytest.mark.parametrize("data", [b"<html>" * 100, bytes(100)])
def test_an_answer_that_is_not_made_of_chunks_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        list(whole_chunks(Arriving(data, 64).read_into))


def test_a_piece_is_good_while_the_next_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_pieces, "PIECE_BYTES", 300)
    pieces = whole_chunks(Arriving(b"".join(CHUNKS), 64).read_into)
    together = b""
    piece = next(pieces)
    while piece:
        following = next(pieces, memoryview(b""))
        together += piece
        piece = following
    assert together == b"".join(CHUNKS)
