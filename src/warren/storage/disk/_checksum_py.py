"""CRC-32C in plain Python, a table entry per byte: what `_checksum.pyx` computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warren.storage.disk.files import Buffer

POLYNOMIAL: Final = 0x82F63B78  # Castagnoli's, lowest bit first


def _entries() -> Iterator[int]:
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (POLYNOMIAL if remainder & 1 else 0)
        yield remainder


_TABLE: Final = tuple(_entries())


def crc32c(data: Buffer, value: int = 0) -> int:
    remainder = value ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        remainder = (remainder >> 8) ^ _TABLE[(remainder ^ byte) & 0xFF]
    return remainder ^ 0xFFFFFFFF
