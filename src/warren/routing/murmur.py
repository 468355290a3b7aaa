"""The 32-bit murmur3 hash, by which publishers and brokers agree on a key's partition.

RabbitMQ's stream clients hash with the seed below and take the rest of a division, unsigned, by the
number of partitions. A broker that did anything else would send a key elsewhere than they do. The
`.pxd` beside this file gives the numbers C types; the masks make plain Python wrap around like C.
"""

from __future__ import annotations

from typing import Final

SEED: Final = 104_729
"""The seed of RabbitMQ's stream clients."""


def murmur3_32(data: bytes, seed: int) -> int:
    """Return Austin Appleby's MurmurHash3_x86_32 of the data, unsigned."""
    mixed = seed
    length = len(data)
    whole = length - length % 4
    place = 0
    while place < whole:
        block = data[place + 3]
        block = block << 8 | data[place + 2]
        block = block << 8 | data[place + 1]
        block = block << 8 | data[place]
        block = block * 0xCC9E2D51 & 0xFFFFFFFF
        block = (block << 15 | block >> 17) & 0xFFFFFFFF
        mixed ^= block * 0x1B873593 & 0xFFFFFFFF
        mixed = (mixed << 13 | mixed >> 19) & 0xFFFFFFFF
        mixed = (mixed * 5 + 0xE6546B64) & 0xFFFFFFFF
        place += 4
    block = 0
    while length > place:
        length -= 1
        block = block << 8 | data[length]
    block = block * 0xCC9E2D51 & 0xFFFFFFFF
    block = (block << 15 | block >> 17) & 0xFFFFFFFF
    mixed ^= block * 0x1B873593 & 0xFFFFFFFF
    mixed ^= len(data)
    mixed ^= mixed >> 16
    mixed = mixed * 0x85EBCA6B & 0xFFFFFFFF
    mixed ^= mixed >> 13
    mixed = mixed * 0xC2B2AE35 & 0xFFFFFFFF
    return mixed ^ mixed >> 16
