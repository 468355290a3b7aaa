"""CRC-32C: the published values, and all ways to compute it agree."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.storage.disk import _checksum_py, checksum
from warren.storage.disk.files import Buffer

Checksum = Callable[[Buffer, int], int]

WAYS: dict[str, Checksum] = {"selected": checksum.crc32c, "pure": _checksum_py.crc32c}
try:
    from warren.storage.disk import _checksum
except ImportError:
    pass
else:
    WAYS["compiled"] = _checksum.crc32c
    WAYS["table"] = _checksum.crc32c_by_table


@pytest.fixture(params=sorted(WAYS))
def crc32c(request: pytest.FixtureRequest) -> Checksum:
    return WAYS[request.param]


# RFC 3720, B.4, and the check value of the catalogue of CRCs.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_values(crc32c: Checksum, data: bytes, expected: int) -> None:
    assert crc32c(data, 0) == expected


@given(data=st.binary(max_size=400), start=st.integers(0, 20), value=st.integers(0, 2**32 - 1))
def test_every_way_computes_the_same_wherever_the_data_begins(
    data: bytes, start: int, value: int
) -> None:
    view = memoryview(data)[start:]
    assert len({way(view, value) for way in WAYS.values()}) == 1


@pytest.mark.parametrize("size", [383, 384, 385, 1_159, 6_143, 6_144, 6_145, 13_000, 20_001])
def test_every_way_computes_the_same_however_long_the_data_is(size: int) -> None:
    """Long data is summed in several stretches at a time."""
    data = random.Random(size).randbytes(size)
    assert len({way(data, 7) for way in WAYS.values()}) == 1


@given(data=st.binary(max_size=200), cut=st.integers(0, 200))
def test_pieces_sum_up_to_the_whole(data: bytes, cut: int) -> None:
    for way in WAYS.values():
        assert way(data[cut:], way(data[:cut], 0)) == way(data, 0)


@given(data=st.binary(min_size=1, max_size=200), position=st.integers(0, 1599))
def test_one_flipped_bit_is_always_seen(data: bytes, position: int) -> None:
    flipped = bytearray(data)
    flipped[position // 8 % len(data)] ^= 1 << position % 8
    for way in WAYS.values():
        assert way(flipped, 0) != way(data, 0)


def test_a_buffer_that_is_not_contiguous_is_refused(crc32c: Checksum) -> None:
    with pytest.raises((BufferError, TypeError)):
        crc32c(memoryview(b"abcdef")[::2], 0)
