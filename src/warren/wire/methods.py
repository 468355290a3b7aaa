"""Control methods between bytes and objects. pamqp knows the catalogue; the reading is ours.

pamqp would lose the types of table values, refuse names RabbitMQ takes, and say little about what
is wrong. So its classes only tell which fields a method has. From them a plan is made once per
method: how to cut each field out of the payload, and what to make of it.

Cutting needs no bounds checks: a length that lies makes the offset run past the end of the
payload, where either the next read fails or the final comparison does. Only when everything has
been cut exactly are strings and tables looked into, which is the order of RabbitMQ's complaints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import ClassVar, Final, NamedTuple, TypeAlias

from pamqp.base import Frame
from pamqp.commands import INDEX_MAPPING

from warren.model.erlang import render_binary
from warren.model.errors import command_invalid, frame_error, syntax_error
from warren.model.fields import EMPTY_TABLE, Table
from warren.model.limits import SHORTSTR_BYTES_MAX
from warren.wire.tables import MalformedTable, decode_table_body, encode_table, python_to_table

Method: TypeAlias = Frame

_IDS: Final = Struct(">HH")
_LENGTH: Final = Struct(">I")
_NUMBER_BYTES: Final = {"octet": 1, "short": 2, "long": 4, "longlong": 8, "timestamp": 8}
# SASL data and secrets are bytes; the other long strings are texts of the server's.
_OPAQUE: Final = frozenset({"response", "challenge", "new_secret"})


__all__ = ["Access", "Method", "decode_method", "encode_method", "ids_of", "method_ids"]


class Access:
    """The class that later versions of AMQP dropped; old clients still ask for a ticket."""

    class Request(Frame):
        __slots__: ClassVar[list[str]] = [  # noqa: RUF023 - the order of the wire
            "realm",
            "exclusive",
            "passive",
            "active",
            "write",
            "read",
        ]
        frame_id: ClassVar[int] = 10
        index: ClassVar[int] = 0x001E000A
        name: ClassVar[str] = "Access.Request"
        synchronous: ClassVar[bool] = True
        valid_responses: ClassVar[list[str]] = ["Access.RequestOk"]
        _realm = "shortstr"
        _exclusive = _passive = _active = _write = _read = "bit"

        def __init__(self, realm: str = "/data", write: bool = True, read: bool = True) -> None:
            self.realm = realm
            self.exclusive = self.passive = False
            self.active = True
            self.write = write
            self.read = read

    class RequestOk(Frame):
        __slots__: ClassVar[list[str]] = ["ticket"]
        frame_id: ClassVar[int] = 11
        index: ClassVar[int] = 0x001E000B
        name: ClassVar[str] = "Access.RequestOk"
        _ticket = "short"

        def __init__(self, ticket: int = 1) -> None:
            self.ticket = ticket


def method_ids(payload: bytes) -> tuple[int, int]:
    """Class and method id of an encoded method, whether or not there is such a method."""
    class_id, method_id = _IDS.unpack_from(payload)
    return class_id, method_id


def ids_of(method: Method) -> tuple[int, int]:
    return divmod(method.index, 0x10000)


def decode_method(payload: bytes) -> Method:
    """Raises HardError: the connection has to go, as it would at RabbitMQ."""
    plan = _PLANS.get(payload[: _IDS.size])
    if plan is None:
        # RabbitMQ drops the connection without a word; a reason helps whoever wrote the client.
        class_id, method_id = method_ids(payload)
        raise command_invalid(f"unknown method {class_id}.{method_id}")
    method = plan.method.__new__(plan.method)
    for step, raw in zip(plan.steps, _cut(plan.steps, payload), strict=True):
        if step.bits:
            for position, name in enumerate(step.bits):
                setattr(method, name, bool(raw[0] >> position & 1))
        else:
            setattr(method, step.name, step.kind.read(raw))
    return method


def encode_method(method: Method) -> bytes:
    """Class id, method id and arguments. Tables may be plain mappings; None is empty or zero."""
    output = bytearray(_IDS.pack(*ids_of(method)))
    for step in _PLANS[bytes(output)].steps:
        if step.bits:
            flags = (bool(getattr(method, name)) << n for n, name in enumerate(step.bits))
            output.append(sum(flags))
        else:
            output += step.kind.write(getattr(method, step.name))
    return bytes(output)


class _Kind(NamedTuple):
    """How one type of field is found in a payload, read from its bytes, and written."""

    extent: Callable[[bytes, int], tuple[int, int]]
    read: Callable[[bytes], object]
    write: Callable[[object], bytes]


class _Step(NamedTuple):
    """One field, or the up to eight bits that share an octet."""

    name: str
    kind: _Kind
    bits: tuple[str, ...] = ()


class _Plan(NamedTuple):
    method: type[Method]
    steps: tuple[_Step, ...]


def _cut(steps: tuple[_Step, ...], payload: bytes) -> list[bytes]:
    """The bytes of each field; together they must be all of the payload."""
    offset = _IDS.size
    fields: list[bytes] = []
    try:
        for step in steps:
            start, offset = step.kind.extent(payload, offset)
            fields.append(payload[start:offset])
    except (IndexError, error):
        offset = -1
    if offset != len(payload):
        raise frame_error(f"cannot decode {render_binary(payload[_IDS.size :])}")
    return fields


def _extent_short(payload: bytes, offset: int) -> tuple[int, int]:
    return offset + 1, offset + 1 + payload[offset]


def _extent_long(payload: bytes, offset: int) -> tuple[int, int]:
    start = offset + _LENGTH.size
    length: int = _LENGTH.unpack_from(payload, offset)[0]
    return start, start + length


def _read_short(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as problem:
        malformed = frame_error("Malformed UTF-8 in shortstr")
        malformed.method_ids = (0, 0)
        raise malformed from problem


def _read_table(raw: bytes) -> Table:
    try:
        return decode_table_body(raw)
    except MalformedTable as problem:
        raise syntax_error(f"malformed table: {problem}") from problem


def _write_short(value: object) -> bytes:
    raw = _bytes_of(value)
    if len(raw) > SHORTSTR_BYTES_MAX:
        raise ValueError(f"a short string has {SHORTSTR_BYTES_MAX} bytes at most: {raw!r}")
    return bytes((len(raw),)) + raw


def _write_long(value: object) -> bytes:
    raw = _bytes_of(value)
    return _LENGTH.pack(len(raw)) + raw


def _write_table(value: object) -> bytes:
    if isinstance(value, Mapping):
        value = python_to_table(value)
    return encode_table(value if isinstance(value, Table) else EMPTY_TABLE)


def _bytes_of(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return str(value).encode(errors="surrogateescape") if value is not None else b""


def _number(size: int) -> _Kind:
    def write(value: object) -> bytes:
        number = 0 if value is None else value
        assert isinstance(number, int), f"{value!r} in place of a number"
        return number.to_bytes(size, "big")

    return _Kind(
        extent=lambda _payload, offset: (offset, offset + size),
        read=lambda raw: int.from_bytes(raw, "big"),
        write=write,
    )


_KINDS: Final = {
    "shortstr": _Kind(_extent_short, _read_short, _write_short),
    "longstr": _Kind(_extent_long, lambda raw: raw.decode(errors="surrogateescape"), _write_long),
    "opaque": _Kind(_extent_long, lambda raw: raw, _write_long),
    "table": _Kind(_extent_long, _read_table, _write_table),
    **{name: _number(size) for name, size in _NUMBER_BYTES.items()},
}


def _plan(method: type[Method]) -> _Plan:
    steps: list[_Step] = []
    bits: list[str] = []
    for name in method.attributes():
        field_type = method.amqp_type(name)
        if field_type == "bit":
            bits.append(name)
            continue
        if bits:
            steps.append(_bits_step(bits))
            bits = []
        steps.append(_Step(name, _KINDS["opaque" if name in _OPAQUE else field_type]))
    if bits:
        steps.append(_bits_step(bits))
    return _Plan(method, tuple(steps))


def _bits_step(names: list[str]) -> _Step:
    assert len(names) <= 8, "no method of AMQP 0-9-1 needs a second octet of bits"
    return _Step(names[0], _KINDS["octet"], tuple(names))


_CATALOGUE: Final[tuple[type[Method], ...]] = (
    *INDEX_MAPPING.values(),
    Access.Request,
    Access.RequestOk,
)
_PLANS: Final = {_IDS.pack(*divmod(method.index, 0x10000)): _plan(method) for method in _CATALOGUE}
