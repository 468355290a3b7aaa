"""AMQP's methods, tables and properties by hand, for tests that need to own every byte.

Nothing here is shared with the broker, nor with the library it decodes control methods with: a
mistake both sides make would not show. A method is named as in the specification
("queue.declare"), takes its fields as keywords, and a field left out is zero or empty.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_CATALOGUE: Final = """
10.10 connection.start version_major:octet version_minor:octet server_properties:table mechanisms:longstr locales:longstr
10.11 connection.start-ok client_properties:table mechanism:shortstr response:longstr locale:shortstr
10.20 connection.secure challenge:longstr
10.21 connection.secure-ok response:longstr
10.30 connection.tune channel_max:short frame_max:long heartbeat:short
10.31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10.40 connection.open virtual_host:shortstr capabilities:shortstr insist:bit
10.41 connection.open-ok known_hosts:shortstr
10.50 connection.close reply_code:short reply_text:shortstr class_id:short method_id:short
10.51 connection.close-ok
10.60 connection.blocked reason:shortstr
10.61 connection.unblocked
10.70 connection.update-secret new_secret:longstr reason:shortstr
10.71 connection.update-secret-ok
20.10 channel.open out_of_band:shortstr
20.11 channel.open-ok channel_id:longstr
20.20 channel.flow active:bit
20.21 channel.flow-ok active:bit
20.40 channel.close reply_code:short reply_text:shortstr class_id:short method_id:short
20.41 channel.close-ok
40.10 exchange.declare ticket:short exchange:shortstr type:shortstr passive:bit durable:bit auto_delete:bit internal:bit nowait:bit arguments:table
40.11 exchange.declare-ok
40.20 exchange.delete ticket:short exchange:shortstr if_unused:bit nowait:bit
40.21 exchange.delete-ok
40.30 exchange.bind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40.31 exchange.bind-ok
40.40 exchange.unbind ticket:short destination:shortstr source:shortstr routing_key:shortstr nowait:bit arguments:table
40.51 exchange.unbind-ok
50.10 queue.declare ticket:short queue:shortstr passive:bit durable:bit exclusive:bit auto_delete:bit nowait:bit arguments:table
50.11 queue.declare-ok queue:shortstr message_count:long consumer_count:long
50.20 queue.bind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit arguments:table
50.21 queue.bind-ok
50.30 queue.purge ticket:short queue:shortstr nowait:bit
50.31 queue.purge-ok message_count:long
50.40 queue.delete ticket:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
50.41 queue.delete-ok message_count:long
50.50 queue.unbind ticket:short queue:shortstr exchange:shortstr routing_key:shortstr arguments:table
50.51 queue.unbind-ok
60.10 basic.qos prefetch_size:long prefetch_count:short global_:bit
60.11 basic.qos-ok
60.20 basic.consume ticket:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit exclusive:bit nowait:bit arguments:table
60.21 basic.consume-ok consumer_tag:shortstr
60.30 basic.cancel consumer_tag:shortstr nowait:bit
60.31 basic.cancel-ok consumer_tag:shortstr
60.40 basic.publish ticket:short exchange:shortstr routing_key:shortstr mandatory:bit immediate:bit
60.50 basic.return reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
60.60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
60.70 basic.get ticket:short queue:shortstr no_ack:bit
60.71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr message_count:long
60.72 basic.get-empty cluster_id:shortstr
60.80 basic.ack delivery_tag:longlong multiple:bit
60.90 basic.reject delivery_tag:longlong requeue:bit
60.110 basic.recover requeue:bit
60.111 basic.recover-ok
60.120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
85.10 confirm.select nowait:bit
85.11 confirm.select-ok
90.10 tx.select
90.11 tx.select-ok
90.20 tx.commit
90.21 tx.commit-ok
90.30 tx.rollback
90.31 tx.rollback-ok
"""  # noqa: E501 - a catalogue reads best with one method a line

_PROPERTIES: Final = (
    "content_type:shortstr content_encoding:shortstr headers:table delivery_mode:octet "
    "priority:octet correlation_id:shortstr reply_to:shortstr expiration:shortstr "
    "message_id:shortstr timestamp:longlong type:shortstr user_id:shortstr app_id:shortstr "
    "cluster_id:shortstr"
)
_INTEGERS: Final = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
_TABLE_NUMBERS: Final = {
    "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I",
    "l": ">q", "L": ">q", "T": ">Q", "f": ">f", "d": ">d",
}  # fmt: skip


class Typed(NamedTuple):
    """A table value that must travel with exactly this type letter."""

    letter: str
    value: Any


class Method(NamedTuple):
    name: str
    fields: dict[str, Any]

    def __getattr__(self, field: str) -> Any:
        try:
            return self.fields[field]
        except KeyError:
            raise AttributeError(f"{self.name} has no field {field}") from None


class _Layout(NamedTuple):
    class_id: int
    method_id: int
    fields: list[tuple[str, str]]


def _split_fields(words: list[str]) -> list[tuple[str, str]]:
    return [(name, domain) for name, _, domain in (word.partition(":") for word in words)]


def _read_catalogue() -> Iterator[tuple[str, _Layout]]:
    for line in _CATALOGUE.strip().splitlines():
        number, name, *fields = line.split()
        class_id, _, method_id = number.partition(".")
        yield name, _Layout(int(class_id), int(method_id), _split_fields(fields))


METHODS: Final = dict(_read_catalogue())
_NAMES: Final = {(layout.class_id, layout.method_id): name for name, layout in METHODS.items()}
_PROPERTY_FIELDS: Final = _split_fields(_PROPERTIES.split())


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def shortstr(text: str | bytes) -> bytes:
    return struct.pack(">B", len(_raw(text))) + _raw(text)


def longstr(text: str | bytes) -> bytes:
    return struct.pack(">I", len(_raw(text))) + _raw(text)


def _letter_of(value: object) -> Typed:
    if isinstance(value, Typed):
        return value
    if value is None:
        return Typed("V", None)
    for kind, letter in ((bool, "t"), (float, "d"), (str, "S"), (bytes, "S"), (list, "A")):
        if isinstance(value, kind):
            return Typed(letter, value)
    if isinstance(value, Mapping):
        return Typed("F", value)
    if isinstance(value, int):
        return Typed("I" if -(2**31) <= value < 2**31 else "l", value)
    raise TypeError(f"no table type for {value!r}")


def encode_value(value: object) -> bytes:
    letter, data = _letter_of(value)
    if letter in _TABLE_NUMBERS:
        body = struct.pack(_TABLE_NUMBERS[letter], data)
    elif letter == "D":
        body = struct.pack(">BI", *data)
    elif letter in "Sx":
        body = longstr(data)
    elif letter == "A":
        body = longstr(b"".join(encode_value(item) for item in data))
    elif letter == "F":
        body = encode_table(data)
    else:
        body = b""
    return letter.encode() + body


def encode_table(table: Mapping[str, object] | bytes) -> bytes:
    """Bytes are taken as a finished table body, so that a test can send a broken one."""
    if isinstance(table, bytes):
        return longstr(table)
    return longstr(b"".join(shortstr(key) + encode_value(value) for key, value in table.items()))


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._offset = 0

    @property
    def has_more(self) -> bool:
        return self._offset < len(self._data)

    def take(self, size: int) -> bytes:
        piece = self._data[self._offset : self._offset + size]
        assert len(piece) == size, "the broker sent a field that runs past its frame"
        self._offset += size
        return piece

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def longstr(self) -> bytes:
        return self.take(self.number(">I"))

    def field(self, domain: str) -> Any:
        if domain in _INTEGERS:
            return self.number(_INTEGERS[domain])
        if domain == "shortstr":
            return self.take(self.number(">B")).decode()
        return self.longstr() if domain == "longstr" else self.table()

    def table(self) -> dict[str, Typed]:
        inner = Reader(self.longstr())
        found: dict[str, Typed] = {}
        while inner.has_more:
            key = inner.field("shortstr")
            found[key] = inner.value()
        return found

    def value(self) -> Typed:
        letter = self.take(1).decode()
        if letter in _TABLE_NUMBERS:
            return Typed(letter, self.number(_TABLE_NUMBERS[letter]))
        if letter == "D":
            return Typed("D", (self.number(">B"), self.number(">I")))
        if letter in "Sx":
            return Typed(letter, self.longstr())
        if letter == "F":
            return Typed("F", self.table())
        if letter == "A":
            inner, items = Reader(self.longstr()), []
            while inner.has_more:
                items.append(inner.value())
            return Typed("A", items)
        assert letter == "V", f"the broker sent a table value of unknown type {letter!r}"
        return Typed("V", None)


def _encode_field(domain: str, value: Any) -> bytes:
    if domain in _INTEGERS:
        return struct.pack(_INTEGERS[domain], value or 0)
    if domain == "shortstr":
        return shortstr(value or "")
    if domain == "longstr":
        return longstr(value or b"")
    return encode_table(value or {})


def encode_method(name: str, **fields: Any) -> bytes:
    layout = METHODS[name]
    unknown = set(fields) - {field for field, _ in layout.fields}
    assert not unknown, f"{name} has no {unknown}"
    payload, bits, width = struct.pack(">HH", layout.class_id, layout.method_id), 0, 0
    for field, domain in layout.fields:
        if domain == "bit":
            bits |= bool(fields.get(field)) << width
            width += 1
            continue
        if width:
            payload, bits, width = payload + bytes([bits]), 0, 0
        payload += _encode_field(domain, fields.get(field))
    return payload + bytes([bits]) if width else payload


def method_name(payload: bytes) -> str:
    return _NAMES[struct.unpack(">HH", payload[:4])]


def decode_method(payload: bytes) -> Method:
    name = method_name(payload)
    reader = Reader(payload)
    reader.take(4)
    fields: dict[str, Any] = {}
    bits, width = 0, 8
    for field, domain in METHODS[name].fields:
        if domain != "bit":
            fields[field], width = reader.field(domain), 8
            continue
        if width == 8:
            bits, width = reader.number(">B"), 0
        fields[field] = bool(bits >> width & 1)
        width += 1
    return Method(name, fields)


def encode_properties(**properties: Any) -> bytes:
    """A property block: flags, then the values that are there (an empty one is there too)."""
    flags, values = 0, b""
    for position, (name, domain) in enumerate(_PROPERTY_FIELDS):
        if name in properties:
            flags |= 1 << (15 - position)
            values += _encode_field(domain, properties.pop(name))
    assert not properties, f"no such property: {properties}"
    return struct.pack(">H", flags) + values


def decode_properties(block: bytes) -> dict[str, Any]:
    reader = Reader(block)
    flags = reader.number(">H")
    return {
        name: reader.field(domain)
        for position, (name, domain) in enumerate(_PROPERTY_FIELDS)
        if flags >> (15 - position) & 1
    }
