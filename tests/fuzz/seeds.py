"""Seeds of the corpus: for each target a few sound inputs, made by the code that writes them."""

from __future__ import annotations

import json
from pathlib import Path
from struct import pack
from typing import Final

import wire_frames
from warren.cluster.link.control import Held, HeldCopy, OpenQueue, encode_control
from warren.replication.gm.frames import Activity, AddOnRight, Progress, encode_frame
from warren.replication.group_record import Member
from warren.storage.index.index_format import (
    ACK,
    ACK_FIELDS,
    ACK_RANGE,
    DELETE,
    HEAD,
    LOCATION,
    NUMBER,
    PUBLISH,
    PUBLISH_FIELDS,
    QUEUE,
    STORED,
)
from warren.streams.chunks import encode_chunk
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.tables import encode_table, python_to_table

CORPUS: Final = Path(__file__).parent / "corpus"
_HEADERS: Final = python_to_table(
    {"text": "t", "number": 5, "list": [1, {"deep": True}], "b": b"x"}
)
_BLOCK: Final = encode_properties(
    Properties(content_type="text/plain", headers=_HEADERS, delivery_mode=2, timestamp=1)
)


def _record(kind: int, rest: bytes, flags: int = 0, route_key_bytes: int = 0) -> bytes:
    record = HEAD.pack(0, 0, kind, flags, route_key_bytes, 3, 5) + rest
    return pack("<H", len(record)) + record


def _wire() -> list[bytes]:
    message = wire_frames.message(b"body" * 30, 1, _BLOCK, 50)
    session = message + wire_frames.ack() + wire_frames.frame(wire_frames.HEARTBEAT, 0)
    return [b"\xff" + message, b"\x06" + session, b"\x00" + wire_frames.publish(2)]


def _chunks() -> list[bytes]:
    messages = [Message(b"\x01x\x01k", PropertyBlock(_BLOCK), b"body %d" % i) for i in range(5)]
    return [b"".join(encode_chunk(messages[:n], 7, 1_000)) for n in (1, 5)]


def _records() -> list[bytes]:
    route = b"\x00\x01q"
    embedded = PUBLISH_FIELDS.pack(0, 2, 4) + route + b"\0\0body"
    kinds = [
        _record(PUBLISH, embedded, 0, len(route)),
        _record(PUBLISH, PUBLISH_FIELDS.pack(9, 2, 4) + LOCATION.pack(1, 64), STORED),
        _record(ACK, ACK_FIELDS.pack(2, 8)),
        _record(ACK, ACK_FIELDS.pack(1, 8) + LOCATION.pack(1, 64), STORED),
        _record(ACK_RANGE, NUMBER.pack(9)),
        _record(QUEUE, b"name"),
        _record(DELETE, b""),
    ]
    return [*kinds, b"".join(kinds), b"\0\0damage!!".join(kinds)]


def _frames() -> list[bytes]:
    progress = (Progress("a/1/1", 4, 2, (1, 1), (3, 4)),)
    activity = Activity("uid", 1, 2, "a/1/1", 1, 2, progress)
    joining = AddOnRight("uid", 1, 2, "b/1/1", Member("b/1/1", "b", "1"))
    return [
        b"".join(bytes(part) for part in encode_frame(activity, (b"abc", b"defg"))),
        b"".join(bytes(part) for part in encode_frame(joining)),
    ]


_MULTIPART: Final = (
    b'multipart/form-data; boundary=xyz\n--xyz\r\ncontent-disposition: form-data; name="a"\r\n'
    b"\r\nvalue\r\n--xyz--\r\n"
)
_DEFINITIONS: Final = {
    "rabbitmq_version": "3.10.8",
    "users": [{"name": "u", "password_hash": "x", "tags": "administrator"}],
    "queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {"x-max-length": 5}}],
}
_TEXTS: Final = {
    "form": [_MULTIPART],
    "definitions": [json.dumps(_DEFINITIONS).encode()],
    "json": [b'{"a": [1, 2.5e3, true, null, {"b": "\\u00e9\\n"}], "c": {}}', b'[[], ["x"], -0.5]'],
    "pattern": [b"^(a+)+$", rb"^(?!amq\.).*", rb"(\w+)\.\1|[[:alpha:]]{2,5}?", b"a*b*c*(?i)x"],
    "config": [b"listeners.tcp.1 = 5672\n# c\nlog.file.rotation.date = $D0\nauth_backends.1 = ldap",
               b"[{rabbit, [{tcp_listeners, [5672]}]}]."],
    "erlang": [rb'[{rabbit, [{a, <<"x">>}, {b, "s\n"}, {c, -1.5e3}, {d, \'q a\'}]}]. % end'],
}  # fmt: skip


def seeds() -> dict[str, list[bytes]]:
    return {
        "wire": _wire(),
        "properties": [_BLOCK, b"\0\0"],
        "table": [encode_table(_HEADERS)],
        "chunk": _chunks(),
        "index": _records(),
        "ring": _frames(),
        "link": [
            encode_control(Held((HeldCopy("uid", "a/1/1", 1, 9),))),
            encode_control(OpenQueue(1, "/", "q", 1, "a/1")),
        ],
        **_TEXTS,
    }


def corpus_of(target: str) -> list[bytes]:
    """Return the seeds, and what hunts have found that is worth to be tried again."""
    kept = sorted((CORPUS / target).glob("*"))
    return [*seeds()[target], *(path.read_bytes() for path in kept)]
