"""Messages as the frames that they are sent in, many at once: nothing is done once per message.

A message is a frame of its method, one of its properties, and one of its body:

    1 channel size method CE | 2 channel size 60 0 body-size properties CE | 3 channel size body CE

Of this only the two sizes and the body differ from row to row as a rule. What has the same length
in all rows is put into one array by numpy, a column of bytes for each field. Arrow joins these with
the fields whose lengths differ, row by row, and what it makes lies in one piece of memory, each row
behind the one before: that is what a socket is given, as it stands. Arrow takes as long for each
field, short or not, so there should be few of them.

Bodies that do not fit into one frame, and those of nothing, which have no frame at all, are rare;
their rows are made one by one, and put in place of what the others' way made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_warren.amqp_connection import CHANNEL


class Numbers(NamedTuple):
    """A number for each row, as the bytes that numpy's type has."""

    values: np.ndarray
    kind: np.dtype[Any]


# The same in each row; numbers, whose bytes are as many in each; or whatever each row has.
Field: TypeAlias = bytes | Numbers | pa.BinaryArray

_FRAME: Final = Struct(">BHI")
_HEADER: Final = Struct(">HHQ")
U32: Final = np.dtype(">u4")
U64: Final = np.dtype(">u8")
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
    method: Field, block: Sequence[Field], bodies: pa.BinaryArray, frame_max: int
) -> pa.BinaryArray:
    """One element for each message; `method` is a frame already, `block` is of its properties."""
    lengths = pc.binary_length(bodies).to_numpy()
    is_odd = (lengths == 0) | (lengths > frame_max - FRAME_EXTRA_BYTES)
    if not is_odd.any():
        return _of_one_frame_each(method, block, bodies, lengths)
    mask = pa.array(is_odd)
    fitting = pc.if_else(mask, b"", bodies)
    made = _of_one_frame_each(method, block, fitting, pc.binary_length(fitting).to_numpy())
    odd = [
        _one(
            _row(method, row),
            b"".join(_row(field, row) for field in block),
            bodies[row].as_py(),
            frame_max,
        )
        for row in np.flatnonzero(is_odd).tolist()
    ]
    return pc.replace_with_mask(made, mask, pa.array(odd, pa.binary()))


def _of_one_frame_each(
    method: Field, block: Sequence[Field], bodies: pa.BinaryArray, lengths: np.ndarray
) -> pa.BinaryArray:
    size = sum(_length_of(field) for field in block) + _HEADER.size
    header_size = size.to_bytes(4, "big") if isinstance(size, int) else Numbers(size, U32)
    return joined(
        method,
        bytes((_CONTENT_HEADER,)) + CHANNEL.to_bytes(2, "big"),
        header_size,
        _BASIC.to_bytes(2, "big") + bytes(2),
        Numbers(lengths, U64),
        *block,
        _END + bytes((_BODY,)) + CHANNEL.to_bytes(2, "big"),
        Numbers(lengths, U32),
        bodies,
        _END,
    )


def _one(method: bytes, block: bytes, body: bytes, frame_max: int) -> bytes:
    """A message whose body has any length."""
    size = frame_max - FRAME_EXTRA_BYTES
    parts = [frame(_BODY, body[at : at + size]) for at in range(0, len(body), size)]
    header = _HEADER.pack(_BASIC, 0, len(body)) + block
    return b"".join((method, frame(_CONTENT_HEADER, header), *parts))


def _row(field: Field, row: int) -> bytes:
    if isinstance(field, bytes):
        return field
    if isinstance(field, Numbers):
        return np.array(field.values[row], field.kind).tobytes()
    value: bytes = field[row].as_py()
    return value


def _length_of(field: Field) -> int | np.ndarray:
    """Bytes of it in each row."""
    if isinstance(field, bytes):
        return len(field)
    if isinstance(field, Numbers):
        return field.kind.itemsize
    lengths: np.ndarray = pc.binary_length(field).to_numpy()
    return lengths


def joined(*fields: Field) -> pa.BinaryArray:
    """Row by row, one field behind another; at least one of them is an array."""
    values: list[pa.Scalar | pa.BinaryArray] = []
    fixed: list[bytes | Numbers] = []
    for field in fields:
        if isinstance(field, bytes | Numbers):
            fixed.append(field)
            continue
        if fixed:
            values.append(_beside_each_other(fixed))
            fixed = []
        values.append(field)
    if fixed:
        values.append(_beside_each_other(fixed))
    return pc.binary_join_element_wise(*values, pa.scalar(b"", pa.binary()))


def _beside_each_other(fields: list[bytes | Numbers]) -> pa.Scalar | pa.BinaryArray:
    """Return one field: what all rows share is copied at once, then the numbers are put in."""
    template = b"".join(
        field if isinstance(field, bytes) else bytes(field.kind.itemsize) for field in fields
    )
    all_numbers = [field for field in fields if isinstance(field, Numbers)]
    if not all_numbers:
        return pa.scalar(template, pa.binary())
    count, width = len(all_numbers[0].values), len(template)
    octets = bytearray(template) * count
    start = 0
    for field in fields:
        if isinstance(field, Numbers):
            place = np.ndarray(count, field.kind, octets, start, (width,))
            place[:] = field.values
            start += field.kind.itemsize
        else:
            start += len(field)
    ends = np.arange(0, count * width + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(octets)]
    )


def octets_of(frames: pa.BinaryArray) -> memoryview:
    """All rows, one behind another, without a copy."""
    ends = np.frombuffer(frames.buffers()[1], np.int32)
    start, end = ends[frames.offset], ends[frames.offset + len(frames)]
    return memoryview(frames.buffers()[2])[start:end]
