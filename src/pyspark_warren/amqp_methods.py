"""AMQP methods that a publisher sends and hears, between objects and bytes.

The broker's own catalogue (warren/wire/methods.py) has every method and needs pamqp. Spark's
workers may have nothing but numpy, pyarrow and pyspark, and a publisher needs some twenty methods,
so these are listed here: a dataclass each, whose `layout` has a letter for each field. The unit
tests hold every one of them to the broker's catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import groupby
from struct import Struct
from typing import ClassVar, Final

from warren.model.fields import EMPTY_TABLE, Table
from warren.model.limits import SHORTSTR_BYTES_MAX
from warren.wire.tables import MalformedTable, decode_table_body, encode_table

_IDS: Final = Struct(">HH")
# Bytes of the numbers, by the letter in a layout.
_NUMBERS: Final = {"o": 1, "h": 2, "i": 4, "q": 8}
_LENGTH_BYTES: Final = 4


class MalformedMethod(ValueError):
    """The bytes are not a method that a publisher is sent."""


@dataclass(frozen=True, slots=True)
class Method:
    """What all methods have.

    Letters of `layout`: o, h, i, q numbers of 1, 2, 4, 8 bytes; s short string; x long string, as
    bytes; t table; b bit. Bits beside each other share an octet.
    """

    ids: ClassVar[tuple[int, int]]
    layout: ClassVar[str]


@dataclass(frozen=True, slots=True)
class ConnectionStart(Method):
    ids = (10, 10)
    layout = "ootxx"
    version_major: int = 0
    version_minor: int = 9
    server_properties: Table = EMPTY_TABLE
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


@dataclass(frozen=True, slots=True)
class ConnectionStartOk(Method):
    ids = (10, 11)
    layout = "tsxs"
    client_properties: Table
    mechanism: str
    response: bytes = field(repr=False)
    locale: str = "en_US"


@dataclass(frozen=True, slots=True)
class ConnectionTune(Method):
    ids = (10, 30)
    layout = "hih"
    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionTuneOk(Method):
    ids = (10, 31)
    layout = "hih"
    channel_max: int
    frame_max: int
    heartbeat: int


@dataclass(frozen=True, slots=True)
class ConnectionOpen(Method):
    ids = (10, 40)
    layout = "ssb"
    virtual_host: str
    capabilities: str = ""
    insist: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionOpenOk(Method):
    ids = (10, 41)
    layout = "s"
    known_hosts: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionClose(Method):
    ids = (10, 50)
    layout = "hshh"
    reply_code: int
    reply_text: str
    class_id: int = 0
    method_id: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionCloseOk(Method):
    ids = (10, 51)
    layout = ""


@dataclass(frozen=True, slots=True)
class ConnectionBlocked(Method):
    ids = (10, 60)
    layout = "s"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionUnblocked(Method):
    ids = (10, 61)
    layout = ""


@dataclass(frozen=True, slots=True)
class ChannelOpen(Method):
    ids = (20, 10)
    layout = "s"
    out_of_band: str = ""


@dataclass(frozen=True, slots=True)
class ChannelOpenOk(Method):
    ids = (20, 11)
    layout = "x"
    channel_id: bytes = b""


@dataclass(frozen=True, slots=True)
class ChannelClose(Method):
    ids = (20, 40)
    layout = "hshh"
    reply_code: int
    reply_text: str
    class_id: int = 0
    method_id: int = 0


@dataclass(frozen=True, slots=True)
class ConfirmSelect(Method):
    ids = (85, 10)
    layout = "b"
    nowait: bool = False


@dataclass(frozen=True, slots=True)
class ConfirmSelectOk(Method):
    ids = (85, 11)
    layout = ""


@dataclass(frozen=True, slots=True)
class BasicPublish(Method):
    ids = (60, 40)
    layout = "hssbb"
    ticket: int = 0
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = False
    immediate: bool = False


@dataclass(frozen=True, slots=True)
class BasicReturn(Method):
    ids = (60, 50)
    layout = "hsss"
    reply_code: int
    reply_text: str
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class BasicGet(Method):
    ids = (60, 70)
    layout = "hsb"
    ticket: int = 0
    queue: str = ""
    no_ack: bool = False


@dataclass(frozen=True, slots=True)
class BasicGetEmpty(Method):
    ids = (60, 72)
    layout = "s"
    cluster_id: str = ""


@dataclass(frozen=True, slots=True)
class BasicAck(Method):
    ids = (60, 80)
    layout = "qb"
    delivery_tag: int = 0
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class BasicNack(Method):
    ids = (60, 120)
    layout = "qbb"
    delivery_tag: int = 0
    multiple: bool = False
    requeue: bool = True


METHODS: Final[tuple[type[Method], ...]] = (
    ConnectionStart, ConnectionStartOk, ConnectionTune, ConnectionTuneOk, ConnectionOpen,
    ConnectionOpenOk, ConnectionClose, ConnectionCloseOk, ConnectionBlocked, ConnectionUnblocked,
    ChannelOpen, ChannelOpenOk, ChannelClose, ConfirmSelect, ConfirmSelectOk,
    BasicPublish, BasicReturn, BasicGet, BasicGetEmpty, BasicAck, BasicNack,
)  # fmt: skip
_BY_IDS: Final = {method.ids: method for method in METHODS}


def encode_method(method: Method) -> bytes:
    """Return class id, method id and arguments. Raises ValueError for what the wire cannot hold."""
    values = [getattr(method, f.name) for f in fields(method)]
    output = bytearray(_IDS.pack(*method.ids))
    position = 0
    for letter, group in groupby(method.layout):
        count = len(list(group))
        part = values[position : position + count]
        position += count
        if letter == "b":
            output.append(sum(bool(value) << n for n, value in enumerate(part)))
            continue
        for value in part:
            output += _encoded(letter, value)
    return bytes(output)


def decode_method(payload: bytes) -> Method:
    """Return the method in a frame's payload. Raises MalformedMethod."""
    if len(payload) < _IDS.size:
        raise MalformedMethod("a frame without a method")
    ids = _IDS.unpack_from(payload)
    kind = _BY_IDS.get(ids)
    if kind is None:
        raise MalformedMethod(f"method {ids[0]}.{ids[1]} is none that a publisher is sent")
    values: list[object] = []
    position = _IDS.size
    for letter, group in groupby(kind.layout):
        count = len(list(group))
        if letter == "b":
            octet = int.from_bytes(_cut(payload, position, 1), "big")
            values += [bool(octet >> n & 1) for n in range(count)]
            position += 1
            continue
        for _ in range(count):
            value, position = _decoded(letter, payload, position)
            values.append(value)
    if position != len(payload):
        raise MalformedMethod(f"{kind.__name__} has {len(payload) - position} bytes too many")
    return kind(*values)


def _encoded(letter: str, value: object) -> bytes:
    if letter == "t":
        assert isinstance(value, Table)
        return encode_table(value)
    if letter in _NUMBERS:
        assert isinstance(value, int)
        return value.to_bytes(_NUMBERS[letter], "big")
    raw = value if isinstance(value, bytes) else str(value).encode()
    if letter == "x":
        return len(raw).to_bytes(_LENGTH_BYTES, "big") + raw
    if len(raw) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"a short string has {SHORTSTR_BYTES_MAX} bytes at most: {raw!r}")
    return bytes((len(raw),)) + raw


def _decoded(letter: str, payload: bytes, position: int) -> tuple[object, int]:
    """Return a value and where the next one begins."""
    if letter in _NUMBERS:
        size = _NUMBERS[letter]
        return int.from_bytes(_cut(payload, position, size), "big"), position + size
    prefix = 1 if letter == "s" else _LENGTH_BYTES
    size = int.from_bytes(_cut(payload, position, prefix), "big")
    raw = _cut(payload, position + prefix, size)
    end = position + prefix + size
    if letter == "x":
        return raw, end
    if letter == "s":
        return raw.decode(errors="replace"), end
    try:
        return decode_table_body(raw), end
    except MalformedTable as error:
        raise MalformedMethod(f"a table: {error}") from error


def _cut(payload: bytes, position: int, size: int) -> bytes:
    part = payload[position : position + size]
    if len(part) != size:
        raise MalformedMethod("a method ends too early")
    return part
