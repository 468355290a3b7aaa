"""Values as rabbitmqctl prints them: inside tables as Erlang terms, in JSON with their types.

The management API gives AMQP tables as plain JSON objects, so the type of a field is a guess here:
the one a client library would have chosen for the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

SIGNED_INT_MAX: Final = 2**31 - 1
LINE_CHARS_MAX: Final = 80


class Atom(str):
    """A word of the broker's own: a state, a type, a tag."""

    __slots__ = ()


class Pid(str):
    """The name rabbitmqctl has for a process: <node.creation.id.serial>."""

    __slots__ = ()


class AmqpTable(dict[str, object]):
    """Arguments or client properties."""


def shown(value: object) -> str:
    """One cell of a table."""
    match value:
        case None:
            return ""
        case str():
            return str(value)
        case Mapping() | bool() | float() | int():
            return in_term(value)
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return f"[{', '.join(value)}]"
        case _:
            return in_term(value)


def in_term(value: object) -> str:
    """Inside a list: strings are quoted, and an object is a list of pairs."""
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case Atom() | Pid():
            return str(value)
        case str():
            return quoted(value)
        case Mapping():
            pairs = (f"{{{in_term(k)},{in_term(v)}}}" for k, v in value.items())
            return f"[{','.join(pairs)}]"
        case list() | tuple():
            return f"[{','.join(map(in_term, value))}]"
        case _:
            return str(value)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'"{escaped}"'


def to_json(value: object) -> object:
    """What a JSON encoder may have: typed fields for AMQP tables, text for nothing."""
    match value:
        case None:
            return ""
        case AmqpTable():
            return [[name, *typed(field)] for name, field in value.items()]
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item) for item in value]
        case _:
            return value


def typed(value: object) -> tuple[str, object]:
    """The name of an AMQP field's type, and the value."""
    match value:
        case None:
            return "void", "undefined"
        case bool():
            return "bool", value
        case int():
            is_short = -SIGNED_INT_MAX - 1 <= value <= SIGNED_INT_MAX
            return ("signedint" if is_short else "long"), value
        case float():
            return "double", value
        case str():
            return "longstr", value
        case Mapping():
            return "table", [[name, *typed(field)] for name, field in value.items()]
        case Sequence():
            return "array", [list(typed(item)) for item in value]
        case _:
            raise TypeError(f"JSON holds no {type(value).__name__}")


def erlang(value: object, indent: int = 0) -> str:
    """As Erlang's shell prints it, broken where a line would be too long."""
    match value:
        case AmqpTable():
            fields = [(_binary(k), typed(v)) for k, v in value.items()]
            return _bracket("[", [_field(k, t) for k, t in fields], "]", indent)
        case Mapping():
            items = [f"{{{k},{erlang(v, indent + len(str(k)) + 3)}}}" for k, v in value.items()]
            return _bracket("[", items, "]", indent)
        case list() | tuple():
            return _bracket("[", [erlang(item, indent + 1) for item in value], "]", indent)
        case Atom() | Pid():
            return str(value)
        case str():
            return _binary(value)
        case _:
            return in_term(value)


def _field(name: str, field: tuple[str, object]) -> str:
    kind, value = field
    shown_value = _binary(value) if isinstance(value, str) else in_term(value)
    return f"{{{name},{kind},{shown_value}}}"


def _binary(text: str) -> str:
    return f"<<{quoted(text)}>>" if text else "<<>>"


def _bracket(left: str, items: list[str], right: str, indent: int) -> str:
    line = f"{left}{','.join(items)}{right}"
    if indent + len(line) <= LINE_CHARS_MAX and "\n" not in line:
        return line
    return f"{left}{f',{chr(10)}{chr(32) * (indent + 1)}'.join(items)}{right}"
