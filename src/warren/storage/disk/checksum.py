"""CRC-32C, the checksum of every record on disk: compiled, or the pure twin.

`crc32c(data, value=0)`: `value` is the checksum of what came before, so that pieces can be summed
one after another. Compiled modules `cimport crc32c_update` from `_checksum` and skip Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren._pure import PURE

if TYPE_CHECKING:
    from warren.storage.disk._checksum import crc32c
else:
    try:
        if PURE:
            raise ImportError("WARREN_PURE=1")
        from warren.storage.disk._checksum import crc32c
    except ImportError:
        from warren.storage.disk._checksum_py import crc32c

__all__ = ["crc32c"]
