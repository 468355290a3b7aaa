"""Chooses who makes and reads chunks: compiled (`_chunk.pyx`), or the pure twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren._pure import PURE

if TYPE_CHECKING:
    from warren.streams._chunk_py import decode_chunk, encode_chunk, with_offsets
else:
    try:
        if PURE:
            raise ImportError("WARREN_PURE=1")
        from warren.streams._chunk import decode_chunk, encode_chunk, with_offsets
    except ImportError:
        from warren.streams._chunk_py import decode_chunk, encode_chunk, with_offsets

__all__ = ["decode_chunk", "encode_chunk", "with_offsets"]
