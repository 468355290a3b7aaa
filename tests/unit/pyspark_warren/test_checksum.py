"""The checksum in numpy is the broker's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_warren.checksum import LANES, SHORT_BYTES, crc32c
from warren.storage.disk import _checksum_py as plain

# Around each length at which another way of summing is chosen.
LENGTHS = [
    length + by
    for length in (0, SHORT_BYTES, 1_024, 8 * LANES, 10 * LANES, 3 * 8 * LANES)
    for by in (-3, -1, 0, 1, 2)
    if length + by >= 0
]


def test_the_sum_of_nine_digits_is_the_known_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", LENGTHS)
def test_any_length_has_the_broker_s_sum(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == plain.crc32c(data)


@given(st.binary(max_size=2_000), st.integers(0, 2_000))
def test_pieces_are_summed_one_after_another(data: bytes, at: int) -> None:
    assert crc32c(memoryview(data)[at:], crc32c(data[:at])) == plain.crc32c(data)


def test_a_changed_bit_changes_the_sum() -> None:
    data = bytearray(random.Random(1).randbytes(50_000))
    before = crc32c(data)
    for at in (0, 1, 24_999, 49_998, 49_999):
        data[at] ^= 0x10
        assert crc32c(data) != before
        data[at] ^= 0x10
    assert crc32c(data) == before
