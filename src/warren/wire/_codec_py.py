"""The wire kernel in plain Python: what `_codec.pyx` does, written to be read.

It is the specification of the compiled kernel and its stand-in where there is no compiler (or
`WARREN_PURE=1` asks for it). Both must give the same events for the same bytes, right or wrong,
however they are cut, and the same bytes for the same calls; `tests/unit/wire/test_codec_parity.py`
holds them to that. The compiled one differs only in cost: it scans a read in place, keeps the
route key and the property block of the last publish to use again, and lets a body grow in the
`bytes` object it ends up in.

    _values_py.py       messages, methods, acks, faults: what readers produce and queues hold
    _properties_py.py   the property block, taken apart and checked
    _reader_py.py       bytes to events
    _output_py.py       deliveries, confirms and methods to bytes
"""

from __future__ import annotations

from warren.wire._output_py import OutputBuffer
from warren.wire._reader_py import FrameReader
from warren.wire._values_py import (
    Ack,
    Delivery,
    Fault,
    Message,
    MethodFrame,
    PropertyBlock,
    QueuedMessage,
)

__all__ = [
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
