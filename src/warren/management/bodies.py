"""Request bodies: JSON objects, and what is asked of their members."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warren.management.errors import bad_request
from warren.management.json_slices import NotJson, TooManyValues, decode_json
from warren.management.json_types import Json, JsonObject

BODY_BYTES_MAX: Final = 1_000_000
# A message that is published comes within JSON.
PUBLISH_BYTES_MAX: Final = 10_000_000
# A definitions file may be far larger than what one request declares.
DEFINITIONS_BYTES_MAX: Final = 256_000_000

_EMPTY: Final = frozenset({b"", b"null", b"undefined"})
_A_STRING: Final = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)


class Body:
    """A JSON object. What is missing, or of another kind than asked for, is a bad request."""

    def __init__(self, members: JsonObject) -> None:
        self.members = members

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def get(self, name: str, default: Json = None) -> Json:
        return self.members.get(name, default)

    def require(self, *names: str) -> list[Json]:
        """The values of all these, in this order."""
        missing = [name for name in names if name not in self.members]
        if missing:
            listed = ",".join(f"{{key_missing,{_atom(name)}}}" for name in missing)
            raise bad_request(f"[{listed}]")
        return [self.members[name] for name in names]

    def texts(self, *names: str) -> Iterator[str]:
        """As `require`, for strings."""
        for name, value in zip(names, self.require(*names), strict=True):
            yield _text(name, value)

    def text(self, name: str, default: str) -> str:
        return _text(name, self.members[name]) if name in self.members else default

    def boolean(self, name: str, default: bool) -> bool:
        """`true` and `false`, also as strings, since forms send these."""
        value = self.members.get(name, default)
        if value in ("true", "false"):
            return bool(value == "true")
        if not isinstance(value, bool):
            raise bad_request(["not_boolean", value])
        return value

    def object(self, name: str) -> JsonObject:
        value = self.members.get(name)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise bad_request(["not_an_object", name])
        return value


async def parse_body(raw: bytes) -> Body:
    """Return the object; a large one is decoded in slices."""
    if raw in _EMPTY:
        return Body({})
    try:
        value = await decode_json(raw)
    except TooManyValues as error:
        raise bad_request(f"the request body has {error}") from None
    except NotJson:
        raise bad_request("not_json") from None
    if isinstance(value, dict):
        return Body(value)
    if isinstance(value, str):
        raise bad_request(_A_STRING)
    if value is None or isinstance(value, bool):
        return Body({})
    raise bad_request("not_json")


def _text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise bad_request(["not_string", name])
    return value


def _atom(name: str) -> str:
    """As Erlang prints the name: quoted if it is not a plain word."""
    return name if name.isidentifier() and name[0].islower() else f"'{name}'"
