"""Reads the stores of streams on a node's disk, chunk by chunk, without changing a byte of them.

Copies of a stream are the same to the byte, so a chunk is compared as a whole: its offset and a
hash of all its bytes. Each chunk is checked against its own sums first; one that does not fit is
damage, and what follows it in the file cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final

from pyspark_warren.errors import InvalidOption, WarrenError
from pyspark_warren.file_client import FileClient
from pyspark_warren.jobs.findings import CHUNK, DAMAGE, ID, STREAM, Finding
from warren.storage.disk.layout import decode_name
from warren.streams.chunk_format import ChunkHeader, MalformedChunk, is_sound, read_header
from warren.streams.segments import GONE, NAME_FILE
from warren.wire.properties import MalformedProperties, decode_properties

HASH_BYTES: Final = 16
FOLDER: Final = "streams"
"""The folder of a virtual host that has a folder for each stream."""


def stream_findings(directory: Path, vhost: str, *, with_ids: bool) -> Iterator[Finding]:
    """Yield the streams below the directory of a virtual host, and their chunks.

    `with_ids`: yield the message ids of records, too, which takes much longer.
    """
    below = directory / FOLDER
    folders = sorted(below.iterdir()) if below.is_dir() else []
    for folder in folders:
        if GONE not in folder.name and (folder / NAME_FILE).exists():
            name = decode_name((folder / NAME_FILE).read_bytes())
            yield from _Stream(folder, vhost, name).findings(with_ids=with_ids)


@dataclass(frozen=True, slots=True)
class _Stream:
    folder: Path
    vhost: str
    name: str

    def findings(self, *, with_ids: bool) -> Iterator[Finding]:
        yield Finding(STREAM, self.vhost, self.name)
        offset = 0
        try:
            with FileClient(str(self.folder)) as files:
                extent = files.extent(self.name)
                offset = extent.first
                while offset < extent.end:
                    for piece in files.records(self.name, (offset, extent.end)):
                        for header, chunk in _chunks(piece):
                            yield self._chunk(header, chunk)
                            if with_ids:
                                yield from self._ids(header, chunk)
                            offset = header.end_offset
        except InvalidOption:
            return  # no record was ever written
        except (MalformedChunk, WarrenError) as error:
            text = f"stream {self.name!r} cannot be read from offset {offset} on: {error}"
            yield Finding(DAMAGE, self.vhost, text=text)

    def _chunk(self, header: ChunkHeader, chunk: memoryview) -> Finding:
        return Finding(
            CHUNK, self.vhost, self.name, header.first_offset,
            blake2b(chunk, digest_size=HASH_BYTES).hexdigest(),
            bytes=header.size, records=header.records,
        )  # fmt: skip

    def _ids(self, header: ChunkHeader, chunk: memoryview) -> Iterator[Finding]:
        """Yield the id of each distinct property block; records with the same block share it."""
        *_, starts_at, _, blocks_at, _, _ = header.parts()
        starts = Struct(f"<{header.properties + 1}I").unpack_from(chunk, starts_at)
        for start, end in pairwise(starts):
            try:
                block = bytes(chunk[blocks_at + start : blocks_at + end])
                message_id = decode_properties(block).message_id
            except (MalformedProperties, IndexError):
                continue
            if message_id is not None:
                yield Finding(ID, self.vhost, self.name, message_id=message_id)


def _chunks(piece: memoryview) -> Iterator[tuple[ChunkHeader, memoryview]]:
    position = 0
    while position < len(piece):
        header = read_header(piece, position)
        if not is_sound(piece, position, header):
            raise MalformedChunk(f"the checksum of the chunk at {header.first_offset} is wrong")
        yield header, piece[position : position + header.size]
        position += header.size
