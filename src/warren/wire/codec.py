"""Chooses the wire kernel: compiled (`_codec.pyx`) or its readable pure-Python twin.

`WARREN_PURE=1` asks for the twin, which is also the fallback where no compiler was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren._pure import PURE

if TYPE_CHECKING:
    from warren.wire._codec import (
        Ack,
        Delivery,
        Fault,
        FrameReader,
        Message,
        MethodFrame,
        OutputBuffer,
        PropertyBlock,
        QueuedMessage,
    )

    BACKEND: str
else:
    try:
        if PURE:
            raise ImportError("WARREN_PURE=1")
        from warren.wire import _codec as _backend

        BACKEND = "compiled"
    except ImportError:
        from warren.wire import _codec_py as _backend

        BACKEND = "pure"
    Ack = _backend.Ack
    Delivery = _backend.Delivery
    Fault = _backend.Fault
    FrameReader = _backend.FrameReader
    Message = _backend.Message
    MethodFrame = _backend.MethodFrame
    OutputBuffer = _backend.OutputBuffer
    PropertyBlock = _backend.PropertyBlock
    QueuedMessage = _backend.QueuedMessage

__all__ = [
    "BACKEND",
    "Ack",
    "Delivery",
    "Fault",
    "FrameReader",
    "Message",
    "MethodFrame",
    "OutputBuffer",
    "PropertyBlock",
    "QueuedMessage",
]
