"""What a publisher knows of a block that it has sent."""

from __future__ import annotations

import pyarrow as pa

from pyspark_warren.publisher import SentBlock

FRAMES = pa.array([b"skipped", b"one", b"two", b"three", b"four"], pa.binary()).slice(1)


def test_a_block_is_sent_without_what_is_not_part_of_it() -> None:
    assert bytes(SentBlock(FRAMES, 1).octets) == b"onetwothreefour"


def test_confirms_count_once_and_in_any_order() -> None:
    block = SentBlock(FRAMES, 11)
    assert block.last_tag == 14
    assert block.confirm(13, 13) == 1
    assert block.confirm(13, 13) == 0
    assert block.unconfirmed().to_pylist() == [b"one", b"two", b"four"]
    assert block.confirm(0, 13) == 2
    assert (block.left, block.unconfirmed().to_pylist()) == (1, [b"four"])
    assert block.confirm(0, 99) == 1
    assert block.left == 0
