"""Field tables: AMQP's typed key-value lists, with the type of every value kept.

Python's own int and str cannot say whether a client sent an i32 or an i64, and RabbitMQ's error
texts, its equivalence rules and a faithful export all need to know. So a value is a `Field`: the
type letter that RabbitMQ uses on the wire, and the Python value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias, Union

# Type letters of RabbitMQ (they differ from the 0-9-1 text) and its own names for them.
TYPE_NAMES: Final = {
    "t": "bool", "b": "byte", "B": "unsignedbyte", "s": "short", "u": "unsignedshort",
    "I": "signedint", "i": "unsignedint", "l": "long", "L": "long", "f": "float", "d": "double",
    "D": "decimal", "S": "longstr", "A": "array", "T": "timestamp", "F": "table", "V": "void",
    "x": "binary",
}  # fmt: skip
INTEGER_KINDS: Final = frozenset("bBsuIilL")
FLOAT_KINDS: Final = frozenset("fd")

FieldData: TypeAlias = Union[
    None, bool, int, float, bytes, tuple[int, int], "tuple[Field, ...]", "Table"
]


class Field(NamedTuple):
    """One typed value. `S` and `x` hold bytes, `D` (scale, value), `A` a tuple of fields."""

    kind: str
    value: FieldData

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.kind]

    @property
    def is_integer(self) -> bool:
        return self.kind in INTEGER_KINDS


class Table:
    """An ordered, immutable list of (name, Field). Duplicates stay; a look-up finds the first."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[str, Field]] = ()) -> None:
        self._items = tuple(items)

    def get(self, name: str) -> Field | None:
        for key, field in self._items:
            if key == name:
                return field
        return None

    def without(self, *names: str) -> Table:
        return Table(item for item in self._items if item[0] not in names)

    def replacing(self, name: str, field: Field) -> Table:
        """The same table with `name` set: in its old place if it had one, else at the end."""
        if self.get(name) is None:
            return Table((*self._items, (name, field)))
        position = next(i for i, (key, _) in enumerate(self._items) if key == name)
        rest = self._items[position + 1 :]
        return Table((*self._items[:position], (name, field), *(f for f in rest if f[0] != name)))

    def __iter__(self) -> Iterator[tuple[str, Field]]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: str) -> bool:
        return self.get(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"Table({self._items!r})"


EMPTY_TABLE: Final = Table()


def longstr(text: str | bytes) -> Field:
    return Field("S", text.encode() if isinstance(text, str) else text)


def long(value: int) -> Field:
    return Field("l", value)


def array(fields: Iterable[Field]) -> Field:
    return Field("A", tuple(fields))
