"""What the verbs that list things have in common: columns, chosen on the command line.

A column knows which fields of the API's objects it is made of, so that a node with twenty thousand
queues is asked for these fields only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Table
from warren.cli.ctl.terms import AmqpTable, Atom, Pid
from warren.cli.ctl.verbs import Argument, WrongUsage

# An object of the management API.
Item = Mapping[str, Any]

COLUMN_ARGUMENT = Argument("column", "what to show of each", is_rest=True)


@dataclass(frozen=True)
class Column:
    name: str
    value: Callable[[Item], object]
    fields: tuple[str, ...]


def plain(*names: str) -> tuple[Column, ...]:
    """Columns that are called as the API calls them."""
    return tuple(renamed(name, name) for name in names)


def renamed(name: str, source: str) -> Column:
    return Column(name, lambda item: item.get(source), (source,))


def word(name: str, source: str | None = None) -> Column:
    """One of a few words, not anybody's name."""
    return Column(name, lambda item: as_atom(item.get(source or name)), (source or name,))


def table(name: str) -> Column:
    """An AMQP table. RabbitMQ's API says [] for an empty one."""
    return Column(name, lambda item: AmqpTable(item.get(name) or {}), (name,))


def as_atom(value: object) -> object:
    return Atom(value) if isinstance(value, str) else value


def by_name(*columns: Column | Sequence[Column]) -> Mapping[str, Column]:
    flat: list[Column] = []
    for column in columns:
        flat += [column] if isinstance(column, Column) else column
    return {column.name: column for column in flat}


def choose(call: Call, columns: Mapping[str, Column], default: Sequence[str]) -> list[Column]:
    """The columns asked for, separated by blanks or commas."""
    names = [name for word in call.arguments for name in word.split(",") if name]
    unknown = sorted(set(names) - set(columns))
    if unknown:
        raise WrongUsage(f"Info key(s) {','.join(unknown)} are not supported")
    return [columns[name] for name in names or default]


def fields_of(columns: Iterable[Column], *more: str) -> str:
    names = dict.fromkeys(field for column in columns for field in column.fields)
    return ",".join(dict.fromkeys((*names, *more)))


def fill(columns: Sequence[Column], items: Iterable[Item]) -> Table:
    rows = [{column.name: column.value(item) for column in columns} for item in items]
    return Table([column.name for column in columns], rows)


def in_vhost(call: Call, *path: str, columns: str) -> list[Item]:
    """What a virtual host has of something. rabbitmqctl lists nothing where there is no vhost."""
    items: list[Item] | None = call.api.get_or_none(*path, call.vhost, columns=columns)
    if items is None:
        call.warn(f"Warning: virtual host '{call.vhost}' does not exist")
        return []
    return items


def pid_of(node: str, *identity: str) -> Pid:
    """A process id of RabbitMQ's shape, the same for the same thing every time."""
    return Pid(f"<{node}.1.{crc32(chr(0).join(identity).encode())}.0>")


def connection_pid(node: str, name: str) -> Pid:
    """The one `close_connection` takes."""
    return pid_of(node, "connection", name)
