"""What a message store wants to find again: the part of a checkpoint that is its own.

    magic "WSTO", version u32, next file number u32, number of the current file i32 (-1: none),
    number of files u32
    per file: number u32, salt u32, number of deaths u32, size u64, references u64, weight u64,
              dead weight u64, deaths u32 each
    number of files that records were moved from u32
    per such file: number u32, count u32, and of each record: offset, file, new offset, references
              left, u32 each, in four arrays one after another
    CRC-32C u32 of all before

All numbers are little-endian.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from warren.storage.bodies.forwarding import Forwarding, Moves
from warren.storage.bodies.store_files import StoreFile
from warren.storage.disk.checksum import crc32c

MAGIC: Final = b"WSTO"
VERSION: Final = 1
_HEAD: Final = Struct("<4sIIiI")
_FILE: Final = Struct("<IIIQQQQ")
_COUNT: Final = Struct("<I")
_MOVES: Final = Struct("<II")
_CHECKSUM_BYTES: Final = 4


class UnreadableState(ValueError):
    """Not a state, or one of a later version: go on without (everything is scanned)."""


@dataclass(slots=True)
class StoreState:
    next_number: int
    current: int
    files: dict[int, StoreFile]
    forwarding: Forwarding


def encode_state(
    next_number: int, current: int, files: Iterable[StoreFile], forwarding: Forwarding
) -> bytes:
    parts: list[bytes] = []
    for file in files:
        figures = (file.size, file.references, file.weight, file.dead_weight)
        parts.append(_FILE.pack(file.number, file.salt, len(file.deaths), *figures))
        parts.append(_to_bytes(file.deaths))
    head = _HEAD.pack(MAGIC, VERSION, next_number, current, len(parts) // 2)
    parts.append(_COUNT.pack(len(forwarding.moves)))
    for number, moves in forwarding.moves.items():
        parts.append(_MOVES.pack(number, len(moves.offsets)))
        parts += [_to_bytes(values) for values in moves.arrays()]
    data = b"".join((head, *parts))
    return data + crc32c(data).to_bytes(4, "little")


def decode_state(data: bytes) -> StoreState:
    if len(data) < _HEAD.size + _CHECKSUM_BYTES or crc32c(data[:-4]) != int.from_bytes(
        data[-4:], "little"
    ):
        raise UnreadableState("the message store's part of the checkpoint is damaged")
    magic, version, next_number, current, count = _HEAD.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise UnreadableState(f"the message store's part of the checkpoint has format {version}")
    try:
        files, position = _decode_files(data, count)
        forwarding, position = _decode_forwarding(data, position)
    except (struct.error, ValueError, OverflowError) as error:
        raise UnreadableState(
            f"the message store's part of the checkpoint makes no sense: {error}"
        ) from None
    if position != len(data) - _CHECKSUM_BYTES:
        # A slice past the end is shorter without a word, so a length that is wrong shows here.
        raise UnreadableState("the message store's part of the checkpoint has wrong lengths")
    return StoreState(next_number, current, files, forwarding)


def _decode_files(data: bytes, count: int) -> tuple[dict[int, StoreFile], int]:
    position = _HEAD.size
    files = {}
    for _ in range(count):
        number, salt, deaths, *figures = _FILE.unpack_from(data, position)
        position += _FILE.size
        file = files[number] = StoreFile(number, salt=salt)
        file.size, file.references, file.weight, file.dead_weight = figures
        file.deaths = _from_bytes(data[position : position + 4 * deaths])
        position += 4 * deaths
    return files, position


def _decode_forwarding(data: bytes, position: int) -> tuple[Forwarding, int]:
    forwarding = Forwarding()
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    for _ in range(count):
        number, length = _MOVES.unpack_from(data, position)
        position += _MOVES.size
        size = 4 * length
        starts = range(position, position + 4 * size, size)
        forwarding.moves[number] = Moves.of_arrays(
            [_from_bytes(data[start : start + size]) for start in starts]
        )
        position += 4 * size
    return forwarding, position


def _to_bytes(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def _from_bytes(data: bytes) -> array[int]:
    values = array("I")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values
