"""`?columns=name,message_stats.publish`: only these members, of each object at each depth."""

from __future__ import annotations

from typing import TypeAlias

from warren.management.json_types import Json

# Each column as the names along the way to it; None means all.
Columns: TypeAlias = list[list[str]] | None


def parse_columns(text: str | None) -> Columns:
    if text is None:
        return None
    return [[name for name in column.split(".") if name] for column in text.split(",") if column]


def with_columns(value: Json, columns: Columns) -> Json:
    if columns is None:
        return value
    if isinstance(value, dict):
        wanted = {column[0] for column in columns if column}
        return {
            name: with_columns(member, _below(name, columns))
            for name, member in value.items()
            if name in wanted
        }
    if isinstance(value, list):
        return [with_columns(member, columns) for member in value]
    return value


def _below(name: str, columns: list[list[str]]) -> Columns:
    """What is wanted of a member: all of it, if one column ends with it."""
    rests = [column[1:] for column in columns if column and column[0] == name]
    return None if [] in rests else rests
