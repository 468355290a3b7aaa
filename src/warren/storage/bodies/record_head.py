"""Chooses who encodes records: compiled (`_record_head.pyx`), or the pure twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren._pure import PURE

if TYPE_CHECKING:
    from warren.storage.bodies._record_head_py import encode_head
else:
    try:
        if PURE:
            raise ImportError("WARREN_PURE=1")
        from warren.storage.bodies._record_head import encode_head
    except ImportError:
        from warren.storage.bodies._record_head_py import encode_head

__all__ = ["encode_head"]
