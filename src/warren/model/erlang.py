"""Erlang terms as RabbitMQ prints them in the texts that clients (and their tests) compare.

RabbitMQ formats raw octets with `~w` (always numbers) and everything else with `~p`, which shows
bytes as text where all of them are printable Latin-1. The bytes themselves go into the reply
unchanged, so UTF-8 comes out as it went in; what is not UTF-8 cannot be shown and is replaced.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from warren.model.fields import Field, FieldData, Table

_ESCAPES: Final = {
    0x08: b"\\b", 0x09: b"\\t", 0x0A: b"\\n", 0x0B: b"\\v", 0x0C: b"\\f", 0x0D: b"\\r",
    0x1B: b"\\e", 0x22: b'\\"', 0x5C: b"\\\\",
}  # fmt: skip
_PRINTABLE: Final = frozenset({*range(0x20, 0x7F), *range(0xA0, 0x100), *_ESCAPES})
# From here on not every whole number has a float of its own, and Erlang prefers exponents.
_EXACT_FLOAT_END: Final = float(1 << 53)


def render_binary(octets: bytes) -> str:
    """`<<0,10,255>>`, whatever the bytes are."""
    return f"<<{','.join(map(str, octets))}>>"


def render_text_binary(octets: bytes) -> str:
    """`<<"text">>` where the bytes are printable, else numbers."""
    quoted = _quote(octets)
    return render_binary(octets) if quoted is None else f"<<{quoted}>>"


def render_string(text: str | bytes) -> str:
    """An Erlang string, which is a list: `"text"`, or `[1,2]` where it cannot be printed."""
    octets = text.encode() if isinstance(text, str) else text
    quoted = _quote(octets)
    return f"[{','.join(map(str, octets))}]" if quoted is None else quoted


def render_value(value: FieldData) -> str:
    """A field's value without its type."""
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return render_float(value)
        case bytes():
            return render_text_binary(value)
        case Table():
            return f"[{','.join(_render_item(name, field) for name, field in value)}]"
        case _:
            return _render_tuple(value)


def render_field(field: Field) -> str:
    """A typed value as RabbitMQ holds it: `{longstr,<<"text">>}`."""
    return f"{{{field.type_name},{render_value(field.value)}}}"


def render_float(value: float) -> str:
    """The shortest digits that read back the same, as `1.5` or `1.0e5`: whichever is shorter."""
    if value == 0:
        return str(value)
    sign, numerals, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int), "field tables hold finite numbers only"
    digits = "".join(map(str, numerals)).rstrip("0")
    text = _place_point(digits, len(numerals) + exponent, abs(value) < _EXACT_FLOAT_END)
    return f"-{text}" if sign else text


def _place_point(digits: str, place: int, is_exact: bool) -> str:
    """0.DIGITS times ten to the power of `place`, the way Erlang counts what is shorter."""
    if 0 < place < len(digits):
        return f"{digits[:place]}.{digits[place:]}"
    power = str(place - 1)
    cost = len(power) + 1 + (2 if len(digits) == 1 else 1)
    if place <= 0 and (place == 0 or 2 - place <= cost):
        return f"0.{'0' * -place}{digits}"
    if place > 0 and place - len(digits) + 2 <= cost and is_exact:
        return f"{digits}{'0' * (place - len(digits))}.0"
    return f"{digits[0]}.{digits[1:] or '0'}e{power}"


def _quote(octets: bytes) -> str | None:
    if not octets or not _PRINTABLE.issuperset(octets):
        return None
    escaped = b"".join(_ESCAPES.get(octet) or bytes((octet,)) for octet in octets)
    return f'"{escaped.decode(errors="replace")}"'


def _render_item(name: str, field: Field) -> str:
    key = render_text_binary(name.encode(errors="surrogateescape"))
    return f"{{{key},{field.type_name},{render_value(field.value)}}}"


def _render_tuple(value: tuple[int, int] | tuple[Field, ...]) -> str:
    """An array, or a decimal's scale and value; only an array's members are fields."""
    if len(value) == 2 and isinstance(value[0], int):
        return f"{{{value[0]},{value[1]}}}"
    return f"[{','.join(render_field(item) for item in value)}]"
