"""JSON values, and the Erlang terms that RabbitMQ prints for them in its texts.

RabbitMQ prints with `~p`, which breaks what does not fit on a line of 80: tuples at every comma,
lists of plain values where the line is full, other lists after every member, maps after every pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from warren.model.erlang import render_float, render_string, render_text_binary

JsonValue: TypeAlias = (
    None | bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"]
)

_COLUMNS_MAX: Final = 78


def render_json(value: JsonValue, column: int = 0) -> str:
    """The term that RabbitMQ makes of a JSON value; `column` is where it begins."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return render_float(value)
        case str():
            return render_text_binary(value.encode(errors="surrogateescape"))
        case Mapping():
            return _render_map(value, column)
        case _:
            return _render_list(value, column)


def render_terms(terms: Mapping[str, JsonValue], column: int = 0) -> str:
    """A list of pairs, in the order of their names."""
    pairs = [_render_pair(name, terms[name], column + 1) for name in sorted(terms)]
    return _lines("[", pairs, "]", column)


def render_mistake(reason: str, position: int, column: int) -> str:
    """What is wrong with a regular expression: `{"missing )",1}`."""
    return _lines("{", [render_string(reason), str(position)], "}", column)


def _render_pair(name: str, value: JsonValue, column: int) -> str:
    key = render_json(name)
    flat = f"{{{key},{render_json(value, column)}}}"
    if _fits(flat, column):
        return flat
    return _lines("{", [key, render_json(value, column + 1)], "}", column)


def _render_list(values: Sequence[JsonValue], column: int) -> str:
    members = [render_json(value, column + 1) for value in values]
    if any(isinstance(value, Sequence | Mapping) and value for value in values):
        return _lines("[", members, "]", column)
    flat = f"[{','.join(members)}]"
    return flat if _fits(flat, column) else _filled(members, column)


def _filled(members: Sequence[str], column: int) -> str:
    lines, line = [], ""
    for member in members:
        if line and column + 1 + len(line) + len(member) + 1 > _COLUMNS_MAX:
            lines.append(line)
            line = ""
        line += f"{member},"
    lines.append(line.removesuffix(","))
    return f"[{_break(column + 1).join(lines)}]"


def _render_map(pairs: Mapping[str, JsonValue], column: int) -> str:
    inner = column + 2
    return _lines(
        "#{", [_render_association(n, pairs[n], inner) for n in sorted(pairs)], "}", column
    )


def _render_association(name: str, value: JsonValue, column: int) -> str:
    flat = f"{render_json(name)} => {render_json(value, column)}"
    if _fits(flat, column):
        return flat
    return f"{render_json(name)} =>{_break(column + 4)}{render_json(value, column + 4)}"


def _lines(opening: str, members: Sequence[str], closing: str, column: int) -> str:
    flat = f"{opening}{','.join(members)}{closing}"
    if _fits(flat, column):
        return flat
    between = f",{_break(column + len(opening))}"
    return f"{opening}{between.join(members)}{closing}"


def _fits(text: str, column: int) -> bool:
    return "\n" not in text and column + len(text) <= _COLUMNS_MAX


def _break(column: int) -> str:
    return "\n" + " " * column
