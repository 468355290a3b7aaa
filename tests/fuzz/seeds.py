"""Seeds of the corpus: for each target a few sound inputs, made by the code that writes them."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from struct import pack
from typing import Final

from pamqp import commands

import wire_frames
from warren.cluster.link.control import Held, HeldCopy, OpenQueue, encode_control
from warren.replication.classic import instructions
from warren.replication.classic.instructions import Changes, Purged
from warren.replication.gm.frames import Activity, AddOnRight, Progress, encode_frame
from warren.replication.group_record import Member
from warren.replication.stream import stream_instructions
from warren.storage.bodies.forwarding import Forwarding, Moves
from warren.storage.bodies.record_format import file_header as store_header
from warren.storage.bodies.store_files import StoreFile
from warren.storage.bodies.store_state import encode_state
from warren.storage.index.checkpoint import Checkpoint, QueueState, encode_queue
from warren.storage.index.index_format import (
    ACK,
    ACK_FIELDS,
    ACK_RANGE,
    DELETE,
    HEAD,
    JOURNAL_MAGIC,
    LOCATION,
    NUMBER,
    PUBLISH,
    PUBLISH_FIELDS,
    QUEUE,
    STORED,
)
from warren.storage.index.index_format import file_header as index_header
from warren.storage.index.segment import Segment
from warren.streams.chunks import encode_chunk
from warren.wire.codec import Message, PropertyBlock
from warren.wire.methods import encode_method
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


def _methods() -> list[bytes]:
    start_ok = commands.Connection.StartOk(mechanism="PLAIN", response="\0guest\0guest")
    start_ok.client_properties = _HEADERS  # type: ignore[assignment] # tables are ours
    methods = [
        start_ok,
        commands.Connection.TuneOk(2047, 131_072, 60),
        commands.Connection.Open("/"),
        commands.Queue.Declare(queue="q", arguments=_HEADERS),  # type: ignore[arg-type]
        commands.Basic.Publish(exchange="x", routing_key="k", mandatory=True),
        commands.Basic.Nack(5, multiple=True),
    ]
    return [encode_method(method) for method in methods]


def _greetings() -> list[bytes]:
    start_ok, tune_ok, opening, *_ = _methods()
    return [b"\n\n".join((b"AMQP\0\0\x09\x01", start_ok, tune_ok, opening))]


def _checkpoints() -> list[bytes]:
    segment = Segment(1)
    segment.live, segment.stored = 0b1011, 0b10
    queue = QueueState(1, "q", segments={1: segment}, delivered=[(1, 2)])
    file = StoreFile(1, salt=7)
    file.deaths = array("I", [3])
    moves = Forwarding()
    moves.moves[2] = Moves.of_arrays([array("I", [each]) for each in (20, 1, 60, 1)])
    state = encode_state(2, 1, [file], moves)
    blobs = [encode_queue(queue)]  # type: ignore[arg-type] # has all it needs
    return [b"".join(Checkpoint(7, True, 2, 1, 9, state, blobs).pieces())[:-4], state[:-4]]


def _copies() -> list[bytes]:
    messages = [Message(b"\x01x\x01k", PropertyBlock(_BLOCK), b"body %d" % i) for i in range(3)]
    chunk = b"".join(encode_chunk(messages, 7, 1_000))
    changes = Changes(((0, 5, 1),), (("a/1", 1, 1),), (), ((0, 3, 1, 4),))
    return [
        instructions.encode(3, changes),
        instructions.encode(4, Purged({0: 5}, ())),
        stream_instructions.encode(5, stream_instructions.Chunk((("a/1", 1, 3),), 0, 7), [chunk]),
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
_STREAM_CHUNK: Final = b"\1".ljust(24, b"\0") + pack("<6I", 2, 1, 1, 5, 2, 7) + bytes(16)
_MORE_DEFINITIONS: Final = {
    "vhosts": [{"name": "v", "metadata": {"tags": ["t"], "description": "d"}}],
    "permissions": [{"user": "u", "vhost": "/", "configure": ".*", "write": "^a", "read": ""}],
    "topic_permissions": [
        {"user": "u", "vhost": "/", "exchange": "amq.topic", "write": "a", "read": "b"}
    ],
    "exchanges": [
        {"name": "x", "vhost": "/", "type": "topic", "arguments": {"alternate-exchange": "y"}}
    ],
    "bindings": [
        {"source": "x", "vhost": "/", "destination": "q", "destination_type": "queue",
         "routing_key": "#", "arguments": {"x-match": "any", "n": [1, {"d": 1.5}]}}
    ],
    "policies": [
        {"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "queues", "priority": 1,
         "definition": {"max-length": 10, "ha-mode": "exactly", "ha-params": 2}}
    ],
    "parameters": [
        {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}}
    ],
    "global_parameters": [{"name": "cluster_name", "value": "c"}],
}  # fmt: skip
_TEXTS: Final = {
    "form": [_MULTIPART],
    "plain-form": [b"username=guest&password=a%2Bb+c&next=%2Fqueues%3Fx", b"a=" + b"%41" * 1_300],
    "definitions": [json.dumps(each).encode() for each in (_DEFINITIONS, _MORE_DEFINITIONS)],
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
        "method": _methods(),
        "greeting": _greetings(),
        "stream": [_STREAM_CHUNK * 2, _STREAM_CHUNK * 4],
        "checkpoint": _checkpoints(),
        "file-header": [bytes(20), index_header(JOURNAL_MAGIC, 7, 1, 2), store_header(3, 7)],
        "store": [b"\x05\0\1\0hello\x09\0\2\0key.body!\3\0\0\0gap\5\0\1\0again"],
        "copies": _copies(),
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
