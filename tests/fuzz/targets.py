"""Fuzz targets: what reads bytes that a stranger, another node or a broken disk has written.

Each target takes any bytes. It returns if they were read or refused in the way that its module
promises, and raises if not: a crash, another exception than the promised one, or two twins (the
compiled one and the plain one) that differ. `hunt` finds inputs guided by coverage, `test_targets`
tries a few thousand mutations of the corpus in every run of the tests.

Files have checksums, and random bytes would never get behind them. Where it matters the target
seals what it was given (`seals`), as somebody would who can write to the data directory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fuzz.definitions_target import definitions
from fuzz.file_targets import checkpoint, file_header, store, stream
from fuzz.found import Found
from fuzz.peer_targets import copies, greeting, method
from fuzz.seals import seal_chunk, seal_records
from warren.cluster.link.control import MalformedControl, decode_control
from warren.config.erlang_terms import ErlangSyntaxError, read_erlang_term
from warren.config.file import ConfigError, parse_config
from warren.management.json_slices import decode_json
from warren.management.multipart import form_fields
from warren.management.plain_forms import TooManyFields, plain_form_fields
from warren.model.regular_expressions import InvalidPattern, compile_pattern
from warren.replication.gm.frames import MalformedFrame, decode_frames
from warren.storage.index import _index_records_py as plain_index
from warren.storage.index import index_records
from warren.streams import _chunk_py as plain_chunks
from warren.streams import chunks
from warren.streams.chunk_format import MalformedChunk
from warren.wire import codec
from warren.wire.properties import MalformedProperties, decode_properties
from warren.wire.tables import MalformedTable, decode_table, encode_table

Target = Callable[[bytes], None]

FRAME_MAX: Final = 4_096
MESSAGE_BYTES_MAX: Final = 20_000
SALT: Final = 7
WANTED: Final = b"\xff" * 8
READ_BYTES_MAX: Final = 1 << 20
NAMES: Final = (b"", b"orders", b"amq.topic", b"a" * 40 + b"b")


def wire(data: bytes) -> None:
    """Frames of a client. The first byte says in what pieces they come."""
    reader = codec.FrameReader(FRAME_MAX, MESSAGE_BYTES_MAX)
    size = 1 + (data[0] if data else 0)
    for at in range(1, len(data), size):
        piece = data[at : at + size]
        landing = reader.landing()
        if landing is not None and len(piece) <= len(landing):
            landing[: len(piece)] = piece
            reader.landed(len(piece))
        else:
            reader.feed(piece)


def properties(data: bytes) -> None:
    block = codec.PropertyBlock(data)
    try:
        decode_properties(data)
    except MalformedProperties:
        return
    if block.is_malformed:
        raise Found("the kernel refuses properties that can be decoded")


def table(data: bytes) -> None:
    try:
        found, _ = decode_table(data)
    except MalformedTable:
        return
    # Kinds with two letters are written with one of them, as RabbitMQ does; then nothing changes.
    encoded = encode_table(found)
    again, _ = decode_table(encoded)
    if encode_table(again) != encoded:
        raise Found(f"{found} became {again}")


def chunk(data: bytes) -> None:
    """A chunk of a stream whose checksums are right."""
    sealed = seal_chunk(data)
    outcomes = [_chunk_outcome(twin, sealed) for twin in (chunks, plain_chunks)]
    if outcomes[0] != outcomes[1]:
        raise Found(f"{outcomes[0]!r} and {outcomes[1]!r}")


def _chunk_outcome(twin: Any, sealed: bytes) -> list[tuple[bytes, bytes, bytes]] | None:
    try:
        messages = twin.decode_chunk(sealed, 0)
    except MalformedChunk:
        return None
    return [(m.route_key, m.properties.raw, m.body) for m in messages]


def index(data: bytes) -> None:
    """Records of a journal or segment whose checksums are right."""
    sealed = seal_records(data, SALT)
    outcomes = [_index_outcome(twin, sealed) for twin in (index_records, plain_index)]
    if outcomes[0] != outcomes[1]:
        raise Found(f"{outcomes[0]!r} and {outcomes[1]!r}")


def _index_outcome(twin: Any, sealed: bytes) -> tuple[object, ...]:
    records, end, damage = twin.scan(sealed, 0, SALT)
    fields = [
        (r.kind, r.flags, r.queue_id, r.sequence, r.start, r.length, r.count, r.size,
         r.expires_at_ms, r.store_file, r.store_offset)
        for r in records
    ]  # fmt: skip
    reader = twin.EntryReader(SALT, 0, WANTED)
    entries = reader.read(sealed, 0, READ_BYTES_MAX)
    read = [(e.sequence, None if e.message is None else e.message.body) for e in entries]
    return fields, end, damage, read, reader.position, reader.passed, reader.damaged, reader.left


def ring(data: bytes) -> None:
    """Frames of mirrored queues."""
    try:
        frames = list(decode_frames(data))
    except MalformedFrame:
        return
    if sum(len(payload) for _, payloads in frames for payload in payloads) > len(data):
        raise Found("more payload than there was")


def link(data: bytes) -> None:
    """A control method between nodes."""
    try:
        decode_control(data)
    except MalformedControl:
        return


def form(data: bytes) -> None:
    """A form of the page: its content type up to the first line feed, its body behind it."""
    content_type, _, raw = data.partition(b"\n")
    fields = form_fields(content_type.decode("latin-1"), raw)
    if sum(map(len, fields.values())) > len(raw):
        raise Found("more in the fields than there was")


def plain_form(data: bytes) -> None:
    """A form with percent signs, decoded in slices; Python's decoder has to agree."""
    try:
        found = asyncio.run(plain_form_fields(data))
    except TooManyFields:
        return
    expected = {}
    for pair in filter(None, data.split(b"&")):
        name, _, value = map(unquote_to_bytes, pair.replace(b"+", b" ").partition(b"="))
        expected[name.decode(errors="replace")] = value
    if found != expected:
        raise Found(f"{found!r} and {expected!r}")


def large_json(data: bytes) -> None:
    """A body of the HTTP API, decoded in slices; Python's decoder has to agree."""
    try:
        found = asyncio.run(decode_json(data))
    except ValueError:
        return
    try:
        expected = json.loads(data)
    except (ValueError, RecursionError):
        raise Found("Python's decoder refuses it") from None
    if repr(found) != repr(expected):
        raise Found(f"{found!r} and {expected!r}")


def pattern(data: bytes) -> None:
    """A regular expression of a tenant."""
    try:
        compiled = compile_pattern(data.decode("utf-8", "surrogateescape"))
    except InvalidPattern:
        return
    for name in NAMES:
        compiled.matches(name)


def config(data: bytes) -> None:
    text = data.decode(errors="replace")
    for source in ("rabbitmq.conf", "advanced.config"):
        try:
            parse_config(text, source)
        except ConfigError:
            continue


def erlang(data: bytes) -> None:
    try:
        read_erlang_term(data.decode(errors="replace"))
    except ErlangSyntaxError:
        return


TARGETS: Final[dict[str, Target]] = {
    "wire": wire,
    "method": method,
    "greeting": greeting,
    "properties": properties,
    "table": table,
    "chunk": chunk,
    "stream": stream,
    "index": index,
    "checkpoint": checkpoint,
    "file-header": file_header,
    "store": store,
    "ring": ring,
    "copies": copies,
    "link": link,
    "form": form,
    "plain-form": plain_form,
    "definitions": definitions,
    "json": large_json,
    "pattern": pattern,
    "config": config,
    "erlang": erlang,
}
