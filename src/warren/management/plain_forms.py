"""Plain forms (`application/x-www-form-urlencoded`), decoded in slices.

Python's decoder takes a step for each percent sign: 100 kB of them keep everybody waiting for 40
ms. Here others have their turn on the event loop between two slices.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import unquote_to_bytes

FIELDS_MAX: Final = 200
SLICE_BYTES: Final = 2_048
_ESCAPE_BYTES: Final = 3


class TooManyFields(ValueError):
    """No form of ours has that many."""


async def plain_form_fields(raw: bytes) -> dict[str, bytes]:
    """Return the contents of the fields by name; the last of two with one name counts."""
    fields: dict[str, bytes] = {}
    if raw.count(b"&") >= FIELDS_MAX:
        raise TooManyFields(f"more than {FIELDS_MAX} fields")
    for pair in raw.split(b"&"):
        name, _, value = pair.partition(b"=")
        if pair:
            fields[(await _decoded(name)).decode(errors="replace")] = await _decoded(value)
    return fields


async def _decoded(text: bytes) -> bytes:
    pieces, start = [], 0
    while start < len(text):
        end = _end_of_slice(text, start)
        pieces.append(unquote_to_bytes(text[start:end].replace(b"+", b" ")))
        start = end
        if start < len(text):
            await asyncio.sleep(0)
    return b"".join(pieces)


def _end_of_slice(text: bytes, start: int) -> int:
    """Return where the next slice ends, which is not within an escape (%41)."""
    end = start + SLICE_BYTES
    begun = text.rfind(b"%", end - _ESCAPE_BYTES + 1, end)
    return end if begun < 0 else begun
