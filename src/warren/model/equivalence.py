"""Declaring again what exists already: allowed if nothing that matters differs.

RabbitMQ compares the flags and a short list of arguments, ignores the rest, and lets the integer
type a client happens to use be its own affair: 5 is 5, whether it came as i8 or i64. But 5 is not
5.0, and an argument given as void is not an absent one. The texts are RabbitMQ's, since clients'
test suites quote them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from warren.model.erlang import render_value
from warren.model.errors import SoftError, precondition_failed
from warren.model.fields import Field, FieldData, Table
from warren.model.records import ExchangeRecord

ALTERNATE_EXCHANGE: Final = "alternate-exchange"


def require_same(owner: str, name: str, existing: bool | str, wanted: bool | str) -> None:
    """For a flag or the type of `owner`, which is the text of its record."""
    if existing != wanted:
        raise _inequivalent(owner, name, _show(_plain(wanted)), _show(_plain(existing)))


def require_same_arguments(
    owner: str, existing: Table, wanted: Table, names: Iterable[str]
) -> None:
    for name in names:
        old, new = existing.get(name), wanted.get(name)
        if old is not None and new is not None:
            if not _is_same(old.value, new.value):
                raise _inequivalent(owner, name, _show(new.value), _show(old.value))
        elif old is not new:
            raise _inequivalent(owner, name, _show_field(new), _show_field(old))


def require_same_exchange(existing: ExchangeRecord, wanted: ExchangeRecord) -> None:
    owner = str(existing)
    require_same(owner, "type", existing.type, wanted.type)
    require_same(owner, "durable", existing.durable, wanted.durable)
    require_same(owner, "auto_delete", existing.auto_delete, wanted.auto_delete)
    require_same(owner, "internal", existing.internal, wanted.internal)
    require_same_arguments(owner, existing.arguments, wanted.arguments, (ALTERNATE_EXCHANGE,))


def alternate_exchange_of(record: ExchangeRecord) -> str | None:
    """The alternate exchange a new exchange asks for; raises if the argument is no name."""
    return name_argument(str(record), record.arguments, ALTERNATE_EXCHANGE)


def name_argument(owner: str, arguments: Table, name: str) -> str | None:
    """An argument that names an exchange. Names are UTF-8; other bytes find no exchange."""
    field = arguments.get(name)
    if field is None:
        return None
    if field.kind != "S" or not isinstance(field.value, bytes):
        raise precondition_failed(f"invalid type '{field.type_name}' for arg '{name}' in {owner}")
    return field.value.decode(errors="replace")


def _is_same(old: FieldData, new: FieldData) -> bool:
    """Python's True equals 1 and 5.0 equals 5; Erlang's do not."""
    return type(old) is type(new) and old == new


def _plain(value: bool | str) -> FieldData:
    return value.encode() if isinstance(value, str) else value


def _show(value: FieldData) -> str:
    if value is None:
        return "none"
    return f"'{_show_bare(value)}'"


def _show_field(field: Field | None) -> str:
    if field is None:
        return "none"
    return f"the value '{_show_bare(field.value)}' of type '{field.type_name}'"


def _show_bare(value: FieldData) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else render_value(value)


def _inequivalent(owner: str, name: str, received: str, current: str) -> SoftError:
    return precondition_failed(
        f"inequivalent arg '{name}' for {owner}: received {received} but current is {current}"
    )
