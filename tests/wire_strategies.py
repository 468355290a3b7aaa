"""Byte streams for property tests: frames right and wrong, damaged in transit, cut anywhere."""

from __future__ import annotations

from struct import pack

from hypothesis import strategies as st

from wire_frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    NO_PROPERTIES,
    ack,
    body,
    deliver,
    frame,
    get_ok,
    header,
    message,
    publish,
    returned,
    route_key,
    short_string,
)

SMALL_FRAME_MAX = 400
SMALL_MESSAGE_MAX = 500

channels = st.sampled_from([1] * 12 + [2] * 3 + [0, 65535])
octets = st.integers(0, 255)
short_strings = st.binary(max_size=30).map(short_string)


def _long_string(data: bytes) -> bytes:
    return pack(">I", len(data)) + data


def _sized(letters: bytes, size: int) -> st.SearchStrategy[bytes]:
    letter = st.sampled_from([bytes([letter]) for letter in letters])
    return st.tuples(letter, st.binary(min_size=size, max_size=size)).map(b"".join)


_plain_fields = st.one_of(
    _sized(b"V", 0), _sized(b"tbB", 1), _sized(b"su", 2), _sized(b"Iif", 4), _sized(b"D", 5),
    _sized(b"lLdT", 8),
    st.binary(max_size=20).map(lambda data: b"S" + _long_string(data)),
    st.binary(max_size=20).map(lambda data: b"x" + _long_string(data)),
)  # fmt: skip
_keys = st.one_of(st.sampled_from([b"\x02CC", b"\x03BCC", b"\x00"]), short_strings)


def _items(fields: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(st.tuples(_keys, fields).map(b"".join), max_size=4).map(b"".join)


fields = st.recursive(
    _plain_fields,
    lambda inner: st.one_of(
        _items(inner).map(lambda table: b"F" + _long_string(table)),
        st.lists(inner, max_size=4).map(lambda array: b"A" + _long_string(b"".join(array))),
    ),
    max_leaves=8,
)
tables = _items(fields).map(_long_string)

_expirations = st.one_of(
    st.integers(0, 10**13).map(lambda n: short_string(str(n).encode())), short_strings
)
_reply_tos = st.one_of(st.just(short_string(b"amq.rabbitmq.reply-to")), short_strings)
_octet = st.binary(min_size=1, max_size=1)
_VALUES = [
    short_strings, short_strings, tables, _octet, _octet, short_strings, _reply_tos, _expirations,
    short_strings, st.binary(min_size=8, max_size=8), short_strings, short_strings, short_strings,
    short_strings,
]  # fmt: skip


@st.composite
def property_blocks(draw: st.DrawFn) -> bytes:
    """Well-formed ones, now and then damaged."""
    flags = draw(st.one_of(st.sampled_from([0, 0x1000, 0x2000, 0x0100]), st.integers(0, 0xFFFF)))
    values = [draw(v) for n, v in enumerate(_VALUES) if flags & (0x8000 >> n)]
    return draw(damaged(pack(">H", flags) + b"".join(values), damage_max=1))


@st.composite
def damaged(draw: st.DrawFn, data: bytes, damage_max: int) -> bytes:
    """The data with octets changed, lost or added."""
    result = bytearray(data)
    for _ in range(draw(st.integers(0, damage_max))):
        position = draw(st.integers(0, len(result)))
        match draw(st.integers(0, 2)):
            case 0:
                result[position : position + 1] = bytes([draw(octets)])
            case 1:
                del result[position : position + draw(st.integers(1, 9))]
            case _:
                result[position:position] = draw(st.binary(max_size=9))
    return bytes(result)


_bodies = st.binary(max_size=60)
_routes = st.tuples(st.binary(max_size=5), st.binary(max_size=5)).map(lambda r: route_key(*r))
_publishes = st.builds(publish, channels, _routes, octets)
_blocks = st.one_of(st.just(NO_PROPERTIES), property_blocks())
_body_sizes = st.one_of(
    st.integers(0, 60), st.sampled_from([SMALL_MESSAGE_MAX, SMALL_MESSAGE_MAX + 1, 2**64 - 1])
)
_class_ids = st.sampled_from([60] * 9 + [50])
_weights = st.sampled_from([0] * 9 + [1])
_headers = st.builds(header, channels, _body_sizes, _blocks, _class_ids, _weights)
_body_frames = st.builds(body, channels, _bodies)
_messages = st.builds(message, _bodies, channels, _blocks, frame_bytes_max=st.integers(1, 60))
_beginnings = st.tuples(_publishes, _headers, st.one_of(st.just(b""), _body_frames)).map(b"".join)
_deliveries = st.one_of(
    st.builds(deliver, channels, st.binary(max_size=5), _routes, octets),
    st.builds(get_ok, channels, _routes, st.integers(0, 2**32 - 1)),
)
_delivered = st.builds(
    lambda method, payload: method + header(1, len(payload)) + body(1, payload),
    _deliveries,
    _bodies,
)
_overruns = st.builds(
    lambda channel, size: publish(channel) + header(channel, size) + body(channel, bytes(size + 1)),
    channels,
    st.integers(1, 20),
)
_kinds = st.one_of(st.sampled_from([METHOD, HEADER, BODY, HEARTBEAT]), octets)
_end_octets = st.sampled_from([0xCE] * 9 + [0])
_any_frames = st.builds(frame, _kinds, channels, _bodies, _end_octets)
_lengths = st.sampled_from([SMALL_FRAME_MAX, SMALL_FRAME_MAX + 1, 2**31, 2**32 - 1])
_announcements = st.builds(lambda *start: pack(">BHI", *start), _kinds, channels, _lengths)

_elements = [
    *[_messages] * 6,
    *[_beginnings] * 3,
    _overruns,
    _deliveries,
    _delivered,
    _delivered,
    st.builds(returned, channels),
    _publishes,
    _headers,
    _body_frames,
    _body_frames,
    st.builds(ack, channels, st.integers(0, 2**64 - 1), octets),
    st.just(frame(HEARTBEAT, 0)),
    _any_frames,
]
_sequences = st.lists(st.sampled_from(_elements).flatmap(lambda each: each), max_size=12)
_endings = st.one_of(st.just(b""), st.just(b""), _announcements)
frame_sequences = st.tuples(_sequences.map(b"".join), _endings).map(b"".join)
streams = st.one_of(
    frame_sequences, frame_sequences.flatmap(lambda data: damaged(data, damage_max=2))
)
cuts = st.lists(st.integers(0, 1000), max_size=12)
