"""The numbers by which the frame readers name what is wrong with a byte stream."""

from __future__ import annotations

from enum import IntEnum


class FaultKind(IntEnum):
    """`_codec.pyx` keeps the same list; `faults.py` has the error that goes with each."""

    # These two end the stream: where the next frame begins is not known any more.
    FRAME_END = 1
    FRAME_TOO_LARGE = 2
    # After these the reader goes on, if only to see the peer's close-ok.
    UNKNOWN_FRAME = 3
    STRAY_FRAME = 4
    EXPECTED_METHOD = 5
    EXPECTED_HEADER = 6
    WRONG_CLASS = 7
    EXPECTED_BODY = 8
    MALFORMED_PROPERTIES = 9
    MESSAGE_TOO_LARGE = 10
