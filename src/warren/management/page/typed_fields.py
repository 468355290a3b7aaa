"""Fields of forms that hold more than text: arguments, headers, definitions."""

from __future__ import annotations

from typing import Final

import msgspec

from warren.management.json_types import Json, JsonObject
from warren.management.page.api_caller import Refused

LINES_MAX: Final = 100


def table_of(text: str, what: str) -> JsonObject:
    """A JSON object, or a line for each member: `x-max-length = 100`.

    What is JSON behind the `=` is meant so, anything else is text.
    """
    if text.strip().startswith("{"):
        return object_of(text, what)
    table = {}
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > LINES_MAX:
        raise Refused(400, f"There are more than {LINES_MAX} lines of {what}.")
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Refused(400, f"“{line.strip()}” of {what} should be: name = value")
        table[name.strip()] = _value(value.strip())
    return table


def object_of(text: str, what: str) -> JsonObject:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Refused(400, f"The {what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, f"The {what} must be a JSON object, in braces.")
    return value


def _value(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
