"""Checks of single arguments: each returns None, or what is wrong in RabbitMQ's words.

The words are the tail of `invalid arg 'x-message-ttl' for queue 'q' in vhost '/': ...`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from warren.model.erlang import render_field, render_string
from warren.model.fields import Field, Table
from warren.model.limits import EXPIRY_MS_MAX, PRIORITY_MAX, SHORTSTR_BYTES_MAX

# Given the argument and all of them together.
Validator: TypeAlias = Callable[[Field, Table], str | None]

DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
# A number that is not zero, and its unit; written such that no input makes it slow.
_MAX_AGE: Final = re.compile(rb"0*[1-9][0-9]*[YMDhms]")


def check_integer(field: Field, _arguments: Table) -> str | None:
    if field.is_integer:
        return None
    return render_string(f"expected integer, got {field.type_name}")


def check_not_negative(field: Field, arguments: Table) -> str | None:
    problem = check_integer(field, arguments)
    if problem is None and (number := _number(field)) < 0:
        return f"{{value_negative,{number}}}"
    return problem


def check_positive(field: Field, arguments: Table) -> str | None:
    problem = check_not_negative(field, arguments)
    return problem or ("{value_zero,0}" if _number(field) == 0 else None)


def check_ttl(field: Field, arguments: Table) -> str | None:
    problem = check_not_negative(field, arguments)
    if problem is None and (number := _number(field)) > EXPIRY_MS_MAX:
        return f"{{value_too_large,{number}}}"
    return problem


def check_expires(field: Field, arguments: Table) -> str | None:
    return check_ttl(field, arguments) or check_positive(field, arguments)


def check_max_priority(field: Field, arguments: Table) -> str | None:
    problem = check_not_negative(field, arguments)
    if problem is None and (number := _number(field)) > PRIORITY_MAX:
        return f"{{max_value_exceeded,{number}}}"
    return problem


def check_queue_version(field: Field, arguments: Table) -> str | None:
    problem = check_not_negative(field, arguments)
    if problem is None and (number := _number(field)) not in (1, 2):
        return render_string(f"unsupported queue version '{number}'")
    return problem


def check_boolean(field: Field, _arguments: Table) -> str | None:
    return None if field.kind == "t" else _unacceptable(field)


def check_dead_letter_key(field: Field, arguments: Table) -> str | None:
    if field.kind != "S":
        return _unacceptable(field)
    if DEAD_LETTER_EXCHANGE not in arguments:
        return "routing_key_but_no_dlx_defined"
    # RabbitMQ accepts it, and then every consumer of a message so addressed loses its connection.
    length = len(_octets(field))
    return f"{{value_too_long,{length}}}" if length > SHORTSTR_BYTES_MAX else None


def check_text(field: Field, _arguments: Table) -> str | None:
    return None if field.kind == "S" else _unacceptable(field)


def one_of(complaint: str, *allowed: str) -> Validator:
    accepted = {value.encode() for value in allowed}

    def check(field: Field, _arguments: Table) -> str | None:
        if field.kind != "S":
            return _unacceptable(field)
        return None if field.value in accepted else complaint

    return check


def supported(what: str, *allowed: str) -> Validator:
    """Like `one_of`, for the arguments whose text quotes the value."""
    accepted = {value.encode() for value in allowed}

    def check(field: Field, _arguments: Table) -> str | None:
        if field.kind != "S":
            return _unacceptable(field)
        if field.value in accepted:
            return None
        return render_string(f"unsupported {what} '".encode() + _octets(field) + b"'")

    return check


def check_max_age(field: Field, _arguments: Table) -> str | None:
    if field.kind != "S":
        return _unacceptable(field)
    return None if _MAX_AGE.fullmatch(_octets(field)) else "invalid_max_age"


def check_stream_offset(field: Field, _arguments: Table) -> str | None:
    is_place = field.kind == "T" or field.is_integer or field.value in (b"first", b"last", b"next")
    if is_place or (field.kind == "S" and _MAX_AGE.fullmatch(_octets(field))):
        return None
    return f"{{invalid_stream_offset_arg,{render_field(field)}}}"


def _unacceptable(field: Field) -> str:
    return f"{{unacceptable_type,{field.type_name}}}"


def _number(field: Field) -> int:
    assert isinstance(field.value, int), "its type has been checked"
    return field.value


def _octets(field: Field) -> bytes:
    assert isinstance(field.value, bytes), "its type has been checked"
    return field.value
