"""Messages as the frames that they are sent in, many at once: nothing is done once per message.

A message is a frame of its method, one of its properties, and one of its body:

    1 channel size method CE | 2 channel size 60 0 body-size properties CE | 3 channel size body CE

Of this only the two sizes and the body differ from row to row as a rule. Arrow joins columns of
bytes row by row, taking what is the same in all rows as one value, and what it makes lies in one
piece of memory, each row behind the one before: that is what a socket is given, as it stands.

Bodies that do not fit into one frame, and those of nothing, which have no frame at all, are rare;
their rows are made one by one, and put in place of what the others' way made of them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_warren.amqp_connection import CHANNEL

# The same in each row, or one for each.
Bytes: TypeAlias = bytes | pa.BinaryArray

_FRAME: Final = Struct(">BHI")
_HEADER: Final = Struct(">HHQ")
_METHOD, _CONTENT_HEADER, _BODY = 1, 2, 3
_END: Final = b"\xce"
_BASIC: Final = 60
# Of a frame, apart from what it carries.
FRAME_EXTRA_BYTES: Final = 8


def frame(kind: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, CHANNEL, len(payload)) + payload + _END


def method_frame(method: bytes) -> bytes:
    return frame(_METHOD, method)


def content_frames(
    methods: Bytes, blocks: Bytes, bodies: pa.BinaryArray, frame_max: int
) -> pa.BinaryArray:
    """One element for each message; `methods` are frames already, `blocks` are of properties."""
    lengths = pc.binary_length(bodies).to_numpy()
    is_odd = (lengths == 0) | (lengths > frame_max - FRAME_EXTRA_BYTES)
    if not is_odd.any():
        return _of_one_frame_each(methods, blocks, bodies, lengths)
    mask = pa.array(is_odd)
    fitting = pc.if_else(mask, b"", bodies)
    made = _of_one_frame_each(methods, blocks, fitting, pc.binary_length(fitting).to_numpy())
    odd = [
        _one(_row(methods, row), _row(blocks, row), bodies[row].as_py(), frame_max)
        for row in np.flatnonzero(is_odd).tolist()
    ]
    return pc.replace_with_mask(made, mask, pa.array(odd, pa.binary()))


def _of_one_frame_each(
    methods: Bytes, blocks: Bytes, bodies: pa.BinaryArray, lengths: np.ndarray
) -> pa.BinaryArray:
    if isinstance(blocks, bytes):
        header_sizes: Bytes = (_HEADER.size + len(blocks)).to_bytes(4, "big")
    else:
        header_sizes = numbers(_HEADER.size + pc.binary_length(blocks).to_numpy(), ">u4")
    return joined(
        methods,
        bytes((_CONTENT_HEADER,)) + CHANNEL.to_bytes(2, "big"),
        header_sizes,
        _BASIC.to_bytes(2, "big") + bytes(2),
        numbers(lengths, ">u8"),
        blocks,
        _END + bytes((_BODY,)) + CHANNEL.to_bytes(2, "big"),
        numbers(lengths, ">u4"),
        bodies,
        _END,
    )


def _one(method: bytes, block: bytes, body: bytes, frame_max: int) -> bytes:
    """A message whose body has any length."""
    size = frame_max - FRAME_EXTRA_BYTES
    parts = [frame(_BODY, body[at : at + size]) for at in range(0, len(body), size)]
    header = _HEADER.pack(_BASIC, 0, len(body)) + block
    return b"".join((method, frame(_CONTENT_HEADER, header), *parts))


def _row(column: Bytes, row: int) -> bytes:
    value: bytes = column if isinstance(column, bytes) else column[row].as_py()
    return value


def joined(*parts: Bytes) -> pa.BinaryArray:
    """Row by row, one part behind another; at least one of them is a column."""
    merged: list[Bytes] = []
    for part in parts:
        if merged and isinstance(part, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    values = [pa.scalar(p, pa.binary()) if isinstance(p, bytes) else p for p in merged]
    return pc.binary_join_element_wise(*values, pa.scalar(b"", pa.binary()))


def numbers(values: np.ndarray, kind: str) -> pa.BinaryArray:
    """Each as the bytes that numpy's type has."""
    octets = values.astype(kind)
    step = octets.itemsize
    ends = np.arange(0, (len(values) + 1) * step, step, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(octets)]
    )


def octets_of(frames: pa.BinaryArray) -> memoryview:
    """All rows, one behind another, without a copy."""
    ends = np.frombuffer(frames.buffers()[1], np.int32)
    start, end = ends[frames.offset], ends[frames.offset + len(frames)]
    return memoryview(frames.buffers()[2])[start:end]
