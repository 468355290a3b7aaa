"""Mutations of sound inputs, by a seed: bits and bytes changed, pieces cut, doubled and spliced."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

_ODD_BYTES: Final = b"\x00\x01\x7f\x80\xff\xce{}[]()\\\"'\n=%&:;+*?^$|<>#,"
CHANGES_MAX: Final = 6
INPUT_BYTES_MAX: Final = 4_096


def mutated(chance: random.Random, corpus: Sequence[bytes]) -> bytes:
    data = bytearray(chance.choice(corpus))
    for _ in range(chance.randrange(1, CHANGES_MAX)):
        _change(chance, data, corpus)
    return bytes(data[:INPUT_BYTES_MAX])


def _change(chance: random.Random, data: bytearray, corpus: Sequence[bytes]) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 2, 4, 8, 40)))
    match chance.randrange(7):
        case 0 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 1 if data:
            data[at % len(data)] = chance.choice(_ODD_BYTES)
        case 2:
            del data[at:end]
        case 3:
            data[at:at] = data[at:end]
        case 4:
            data[at:end] = chance.randbytes(end - at)
        case 5:
            other = chance.choice(corpus)
            data[at:] = other[chance.randrange(len(other) + 1) :]
        case _:
            data[at:at] = bytes([chance.choice(_ODD_BYTES)])
