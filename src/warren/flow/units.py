"""Amounts of memory and disk as operators write them: 2GiB, 50MB, or a share of the memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

_KIB: Final = ("k", "K", "kib", "kiB", "KiB", "KIB")
_MIB: Final = ("m", "M", "mib", "MiB", "MIB")
_GIB: Final = ("g", "G", "gib", "GiB", "GIB")
_KB: Final = ("kb", "kB", "Kb", "KB")
_MB: Final = ("mb", "Mb", "MB")
_GB: Final = ("gb", "Gb", "GB")

# RabbitMQ's, to the letter: "2mB" and "2GiBs" are none. KiB, which it lists and then trips over,
# is meant as it is written.
UNITS: Final[dict[str, int]] = {
    "": 1,
    **dict.fromkeys(_KIB, 1024),
    **dict.fromkeys(_MIB, 1024**2),
    **dict.fromkeys(_GIB, 1024**3),
    **dict.fromkeys(_KB, 1000),
    **dict.fromkeys(_MB, 1000**2),
    **dict.fromkeys(_GB, 1000**3),
}
_SIZE: Final = re.compile(r"([0-9]+)([A-Za-z]*)")


@dataclass(frozen=True, slots=True)
class Absolute:
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Relative:
    """A share of all the memory this process may have."""

    fraction: float


Amount: TypeAlias = Absolute | Relative


def parse_size(text: str) -> int:
    """Bytes; ValueError says what is wanted."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in UNITS:
        raise ValueError(f"expected bytes as in 4096, 512MiB or 2GB, got '{text}'")
    return int(match[1]) * UNITS[match[2]]


def amount(relative: float | None, absolute_bytes: int | None, default: Amount) -> Amount:
    """Of two settings for the same thing the relative one counts, as in RabbitMQ."""
    if relative is not None:
        return Relative(relative)
    return default if absolute_bytes is None else Absolute(absolute_bytes)
