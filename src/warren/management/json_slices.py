"""Large JSON, decoded in slices, so that others have their turn on the event loop in between.

A decoder in C holds the interpreter's lock until it is done, in whatever thread: 10 MB of `[[],[],`
take it two seconds. So structures are walked here, in Python, value by value, and strings and
numbers are left to the decoders in C. That takes five times as long, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final

import msgspec

from warren.management.json_types import Json

# What is decoded at once: two milliseconds in the worst case.
AT_ONCE_BYTES_MAX: Final = 10_000
# How large a document may be whose members are looked up at once: three milliseconds.
SKIMMED_BYTES_MAX: Final = 1_000_000
VALUES_PER_SLICE: Final = 300
# What opens and closes counts twice. An empty list takes seventy bytes: 10 MB of `[],` are 250 MB.
VALUES_MAX: Final = 100_000
DEPTH_MAX: Final = 500

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_scalar: Final = json.JSONDecoder().raw_decode


class NotJson(ValueError):
    """The text is no JSON."""


class TooManyValues(NotJson):
    """The text may be JSON, but there is too much in it."""


async def decode_json(raw: bytes) -> Json:
    """Decode as `msgspec.json.decode` does; raises NotJson, or TooManyValues for long ones."""
    try:
        if len(raw) <= AT_ONCE_BYTES_MAX:
            return msgspec.json.decode(raw)
        if len(raw) <= SKIMMED_BYTES_MAX and raw.lstrip()[:1] == b"{":
            return await _decode_members(raw)
        await asyncio.sleep(0)  # to put the body together has taken this turn's time
        return await _in_slices(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError, json.JSONDecodeError) as error:
        raise NotJson(str(error)) from error


async def _decode_members(raw: bytes) -> Json:
    """Decode the members of an object each for itself: a long string takes no time to speak of."""
    members: dict[str, Json] = {}
    for name, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items():
        octets = bytes(value)
        if len(octets) <= AT_ONCE_BYTES_MAX or octets[:1] == b'"':
            members[name] = msgspec.json.decode(octets)
        else:
            members[name] = await _in_slices(octets)
        await asyncio.sleep(0)
    return members


async def _in_slices(raw: bytes) -> Json:
    walk = _Walk(raw.decode())
    for count in range(1, VALUES_MAX + 1):
        if walk.step():
            return walk.value
        if count % VALUES_PER_SLICE == 0:
            await asyncio.sleep(0)
    raise TooManyValues(f"more than {VALUES_MAX:,} values")


class _Walk:
    """A walk through a JSON text, one value a step."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = _skip(text, 0)
        self._whole: list[Json] = []
        # The structure that is open, and what closes it; those around it, the innermost last.
        self._into: Any = self._whole
        self._closing = ""
        self._around: list[tuple[Any, str]] = []
        self._is_empty = True

    @property
    def value(self) -> Json:
        return self._whole[0]

    def step(self) -> bool:
        """Take a string, a number, or the beginning of a structure; True if that was all."""
        if self._is_empty and self._closing and self._text.startswith(self._closing, self._at):
            self._at += 1
            self._into, self._closing = self._around.pop()
            return self._go_on()
        key = self._key() if self._closing == "}" else None
        opening = self._text[self._at : self._at + 1]
        if opening == "[":
            self._open(key, [], "]")
        elif opening == "{":
            self._open(key, {}, "}")
        else:
            value, self._at = _scalar_at(self._text, self._at)
            self._put(key, value)
            return self._go_on()
        return False

    def _open(self, key: str | None, structure: Any, closing: str) -> None:
        self._put(key, structure)
        self._around.append((self._into, self._closing))
        if len(self._around) > DEPTH_MAX:
            raise NotJson("nested too deeply")
        self._into, self._closing, self._is_empty = structure, closing, True
        self._at = _skip(self._text, self._at + 1)

    def _put(self, key: str | None, value: Json) -> None:
        if isinstance(self._into, list):
            self._into.append(value)
        else:
            self._into[key] = value

    def _go_on(self) -> bool:
        """Take what stands after a value: a comma, or ends of structures; True at the end."""
        self._is_empty = False
        while self._closing:
            at = _skip(self._text, self._at)
            if self._text.startswith(",", at):
                self._at = _skip(self._text, at + 1)
                return False
            if not self._text.startswith(self._closing, at):
                raise NotJson(f"neither comma nor {self._closing} at {at}")
            self._at = at + 1
            self._into, self._closing = self._around.pop()
        if _skip(self._text, self._at) != len(self._text):
            raise NotJson(f"trailing characters at {self._at}")
        return True

    def _key(self) -> str:
        key, at = _scalar_at(self._text, self._at)
        at = _skip(self._text, at)
        if not isinstance(key, str) or not self._text.startswith(":", at):
            raise NotJson(f"no name and colon at {at}")
        self._at = _skip(self._text, at + 1)
        return key


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None, "it may be empty"
    return found.end()


def _scalar_at(text: str, at: int) -> tuple[Json, int]:
    if text[at : at + 1] in {"N", "I", ""} or text.startswith("-I", at):
        raise NotJson(f"no value at {at}")  # Python's decoder would take NaN and Infinity
    try:
        value, end = _scalar(text, at)
    except json.JSONDecodeError:
        raise NotJson(f"no value at {at}") from None
    if isinstance(value, str) and not value.isascii():
        value.encode()  # half of a surrogate pair is no character
    return value, end
