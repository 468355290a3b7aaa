"""Selections of a stream's records, as a query says them: which parts, and which chunks.

    without=bodies,routes,properties    parts that are left out
    key=PATTERN, several times          a routing key matches one of them, as in a topic exchange
    key_prefix=TEXT, several times      or begins with one of these
    headers={"NAME": "TEXT"}            a message has all these headers, or with header_match=any
                                        one of them; with null instead of the text, any value

The answer may have records that do not match, since chunks come whole; it lacks none that does.
Headers are searched for as bytes: to decode the property blocks of every message would take the
broker longer than to send them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from warren.management.call import Call
from warren.management.errors import bad_request
from warren.model.records import BindingRecord, Destination, DestinationKind
from warren.routing.topic import TopicMatcher
from warren.streams.flags import WITHOUT_BODIES, WITHOUT_PROPERTIES, WITHOUT_ROUTES
from warren.streams.selecting import ChunkLead, Selection
from warren.wire.route_key import split_octets

PARTS: Final = {
    "bodies": WITHOUT_BODIES,
    "routes": WITHOUT_ROUTES,
    "properties": WITHOUT_PROPERTIES,
}
# More conditions of a kind would take the broker longer than sending what they leave out.
CONDITIONS_MAX: Final = 64
_CONDITION_BYTES_MAX: Final = 1_024
_REMEMBERED_KEYS: Final = 4_096
_NAME_BYTES_MAX: Final = 255

_Test = Callable[[ChunkLead], bool]


def selection_of(call: Call) -> Selection | None:
    """None if everything is wanted. Raises 400."""
    without = _without(call.query.get("without", ""))
    tests = [test for test in (_routes_test(call), _headers_test(call)) if test is not None]
    if not without and not tests:
        return None
    if not tests:
        return Selection(without)
    return Selection(without, lambda lead: all(test(lead) for test in tests))


def _without(text: str) -> int:
    flags = 0
    for part in filter(None, text.split(",")):
        if part not in PARTS:
            raise bad_request(f"without={part}: the parts are {', '.join(PARTS)}")
        flags |= PARTS[part]
    return flags


def _conditions(call: Call, name: str) -> list[str]:
    given: list[str] = call.request.query_params.getlist(name)
    if len(given) > CONDITIONS_MAX or any(len(c.encode()) > _CONDITION_BYTES_MAX for c in given):
        raise bad_request(
            f"{name}: no more than {CONDITIONS_MAX} conditions of {_CONDITION_BYTES_MAX} bytes"
        )
    return given


def _routes_test(call: Call) -> _Test | None:
    patterns, prefixes = _conditions(call, "key"), tuple(_conditions(call, "key_prefix"))
    if not patterns and not prefixes:
        return None
    matcher = TopicMatcher()
    for pattern in patterns:
        matcher.add(BindingRecord("", "", Destination(DestinationKind.QUEUE, ""), pattern))

    @lru_cache(_REMEMBERED_KEYS)
    def is_wanted(route: bytes) -> bool:
        key = split_octets(route)[1].decode(errors="replace")
        return key.startswith(prefixes) or bool(matcher.match(key, None))

    return lambda lead: any(map(is_wanted, lead.routes()))


def _headers_test(call: Call) -> _Test | None:
    text = call.query.get("headers")
    if text is None:
        return None
    needles = [_needles(name, value) for name, value in _headers(text).items()]
    several = any if call.query.get("header_match") == "any" else all

    def may_match(lead: ChunkLead) -> bool:
        blocks = lead.property_blocks()
        return several(all(needle in blocks for needle in each) for each in needles)

    return may_match


def _headers(text: str) -> dict[str, str | None]:
    try:
        headers = json.loads(text)
    except ValueError:
        raise bad_request(["not_json", "headers"]) from None
    is_right = isinstance(headers, dict) and 0 < len(headers) <= CONDITIONS_MAX
    if not is_right or not all(v is None or isinstance(v, str) for v in headers.values()):
        raise bad_request(f"headers: an object of 1 to {CONDITIONS_MAX} texts or nulls")
    return headers  # type: ignore[no-any-return] # just looked at


def _needles(name: str, value: str | None) -> tuple[bytes, ...]:
    """Bytes that a property block has if the message has this header: its name, and its text."""
    try:
        encoded, text = name.encode(), (value or "").encode()
    except UnicodeEncodeError:
        raise bad_request("headers: half of a surrogate pair is no text") from None
    if not 0 < len(encoded) <= _NAME_BYTES_MAX:
        raise bad_request(f"headers: a name has 1 to {_NAME_BYTES_MAX} bytes")
    return bytes((len(encoded),)) + encoded, text
