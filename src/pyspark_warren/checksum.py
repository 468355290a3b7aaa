"""CRC-32C in numpy: the checksum of chunks, where the broker's compiled one is not installed.

In plain Python a checksum takes a step for each byte, a hundred times as long as everything else
that is done with a chunk. Here the bytes are laid out as a table of `LANES` columns, each a piece
of the input, and all columns are summed at once, two bytes a step:

    input     | piece 0 | piece 1 | ... | piece n |  rest
    state     |  crc 0  |  crc 1  | ... |  crc n  |        one step of numpy for two bytes of each

At the end the sums are put together. A CRC is linear: that of A and then B is that of A, moved on
by the length of B, exclusive-or that of B. To move by a length is a product with a matrix of bits,
made once for each length, and applied here as four tables of 256 entries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview
Words = NDArray[np.uint32]

POLYNOMIAL: Final = 0x82F63B78  # Castagnoli's, lowest bit first
# As many columns as keep a row of sums within the processor's nearest cache.
LANES: Final = 4_096
# Below, setting up costs more than plain Python.
SHORT_BYTES: Final = 256
_FULL: Final = 0xFFFF_FFFF


def _entries(bits: int) -> Words:
    """Return the remainder of each number of so many bits."""
    table: Words = np.arange(1 << bits, dtype=np.uint32)
    for _ in range(bits):
        table = _shifted(table)
    return table


def _shifted(states: Words) -> Words:
    """Return the states behind one further bit of zero."""
    shifted: Words = (states >> np.uint32(1)) ^ (states & np.uint32(1)) * np.uint32(POLYNOMIAL)
    return shifted


_OF_BYTE: Final = [int(entry) for entry in _entries(8)]
_OF_TWO_BYTES: Final = _entries(16)


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the checksum; `value` is that of what came before."""
    view = memoryview(data).cast("B")
    state = value ^ _FULL
    lanes = LANES
    while lanes > 1 and len(view) < 8 * lanes:
        lanes //= 4
    if len(view) >= SHORT_BYTES and lanes > 1:
        piece = len(view) // lanes // 2 * 2
        state = _of_pieces(view[: piece * lanes], lanes, state)
        view = view[piece * lanes :]
        if len(view) >= SHORT_BYTES:
            return crc32c(view, state ^ _FULL)
    for byte in view:
        state = (state >> 8) ^ _OF_BYTE[(state ^ byte) & 0xFF]
    return state ^ _FULL


def _of_pieces(data: memoryview, lanes: int, state: int) -> int:
    """Return the state behind `data`, which is `lanes` pieces of one even length."""
    pieces = np.frombuffer(data, "<u2").reshape(lanes, -1)
    rows = np.ascontiguousarray(pieces.T)
    states = np.zeros(lanes, np.uint32)
    states[0] = state
    low = states.view("<u2")[::2]
    index = np.empty(lanes, np.uint16)
    entries = np.empty(lanes, np.uint32)
    for row in rows:
        np.bitwise_xor(low, row, out=index)
        np.take(_OF_TWO_BYTES, index, out=entries, mode="clip")
        np.right_shift(states, 16, out=states)
        np.bitwise_xor(states, entries, out=states)
    length = 2 * len(rows)
    # Neighbours are put together, then pairs of them, and so on.
    while len(states) > 1:
        states = _moved(states[::2], length) ^ states[1::2]
        length *= 2
    return int(states[0])


def _moved(states: Words, length: int) -> Words:
    """Return the states behind so many further bytes of zero."""
    tables = _tables_of(length)
    octets = np.ascontiguousarray(states).view(np.uint8).reshape(-1, 4)
    moved = tables[0][octets[:, 0]]
    for number in range(1, 4):
        moved ^= tables[number][octets[:, number]]
    return moved


@lru_cache(maxsize=256)
def _tables_of(length: int) -> list[Words]:
    """Return, for each byte of a state, what its values become behind `length` zeros."""
    columns = _power(length)
    values = np.arange(256, dtype=np.uint32)
    tables = []
    for number in range(4):
        table = np.zeros(256, np.uint32)
        for bit in range(8):
            table ^= np.where(values >> bit & 1, columns[8 * number + bit], np.uint32(0))
        tables.append(table)
    return tables


def _power(length: int) -> Words:
    """Return the matrix that moves a state by `length` zeros: what becomes of each bit."""
    result = np.uint32(1) << np.arange(32, dtype=np.uint32)
    step = result.copy()
    for _ in range(8):
        step = _shifted(step)
    while length:
        if length & 1:
            result = _product(step, result)
        step = _product(step, step)
        length >>= 1
    return result


def _product(matrix: Words, columns: Words) -> Words:
    """Return the matrix applied to each column."""
    result = np.zeros(len(columns), np.uint32)
    for bit in range(32):
        result ^= np.where(columns >> bit & 1, matrix[bit], np.uint32(0))
    return result
