"""What the master of a stream tells its mirrors: its chunks, as they are on its disk.

A stream only grows, so there is little to tell: the next chunk (`Chunk`), where a copy that has
come is to go on (`Began`), and the chunks that one lacks (`Copied`). A copy takes a chunk if it
begins where the copy ends, and passes over it otherwise: either it has it, or will be sent it. So
master and mirror always agree on how far the mirror has come, without a word.

With each chunk goes where the stream begins, since only the master decides what is let go of, and
up to where all in sync hold it, which is what readers may see.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from warren.model.unreadable import UNREADABLE
from warren.replication.classic.instructions import MalformedInstruction, OriginRun
from warren.streams.chunk_format import MalformedChunk, is_sound, read_header
from warren.streams.pending_chunks import PendingChunk, received_chunk

_HEAD: Final = struct.Struct(">QI")
"""The batch's number, the length of the header."""


class Chunk(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The stream grows by the chunk that follows."""

    origins: tuple[OriginRun, ...]
    first_offset: int
    committed: int


class Began(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A member has come: it keeps what it has up to `kept`; or nothing, and begins at `base`."""

    member: str
    kept: int | None
    base: int
    numbers: dict[str, int]
    committed: int


class Copied(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """For a member that lacks them: chunks follow."""

    member: str


StreamInstruction: TypeAlias = Chunk | Began | Copied

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(StreamInstruction)


def encode(number: int, instruction: StreamInstruction, chunks: Sequence[bytes] = ()) -> bytes:
    header = _ENCODER.encode(instruction)
    return b"".join((_HEAD.pack(number, len(header)), header, *chunks))


def decode(payload: bytes | memoryview) -> tuple[int, StreamInstruction, memoryview]:
    """The batch's number, what it says, and the bytes of its chunks."""
    data = memoryview(payload)
    try:
        number, length = _HEAD.unpack_from(data)
        start = _HEAD.size + length
        instruction: StreamInstruction = _DECODER.decode(data[_HEAD.size : start])
    except (struct.error, *UNREADABLE) as error:
        raise MalformedInstruction(str(error)) from None
    return number, instruction, data[start:]


def chunks_in(data: memoryview, first_offset: int) -> Iterator[PendingChunk]:
    """Those from an offset on, each of which was looked at: what is written is what was sent."""
    position = 0
    while position < len(data):
        try:
            header = read_header(data, position)
        except MalformedChunk as error:
            raise MalformedInstruction(str(error)) from None
        end = position + header.size
        if header.first_offset >= first_offset:
            if not is_sound(data, position, header):
                raise MalformedInstruction("a chunk that is not as it was written")
            yield received_chunk(bytes(data[position:end]), header)
        position = end
