"""What a message says of its death, and how it looks when it goes back to where it died.

The newest of its deaths counts: where it was last is where it goes back to. It goes straight to
that queue, by way of the default exchange, so that nobody else gets it a second time, and without
the headers that tell of its deaths: there it is as good as new. That also lets it die again, and
be counted again, when what killed it has not been mended.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from warren.management.arguments import table_to_json
from warren.model.fields import EMPTY_TABLE
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import MalformedProperties, decode_properties, encode_properties
from warren.wire.route_key import make_route_key

_DEATHS: Final = "x-death"
_TRACES: Final = (
    _DEATHS,
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
)
# Other places that a message is to go to; those have it.
_COPIES: Final = "CC"


class LastDeath(NamedTuple):
    reason: str
    queue: str
    exchange: str


def may_be_dead_letter(message: Message) -> bool:
    """Quick: whether it is worth a closer look."""
    return _DEATHS.encode() in message.properties.raw


def last_death(message: Message) -> LastDeath | None:
    """None of a message that did not die, or says so in a way that nobody understands."""
    if not may_be_dead_letter(message):
        return None
    try:
        headers = decode_properties(message.properties.raw).headers
    except MalformedProperties:
        return None
    deaths = table_to_json(headers or EMPTY_TABLE).get(_DEATHS)
    newest = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(newest, dict) or not isinstance(newest.get("queue"), str):
        return None
    return LastDeath(
        str(newest.get("reason", "")), newest["queue"], str(newest.get("exchange", ""))
    )


def moved(message: Message, queue: str) -> Message:
    """The same, addressed to this queue alone."""
    return _readdressed(message, queue, (_COPIES,))


def revived(message: Message, queue: str) -> Message:
    """As it was before it died."""
    return _readdressed(message, queue, (*_TRACES, _COPIES))


def _readdressed(message: Message, queue: str, dropped: tuple[str, ...]) -> Message:
    block = message.properties
    properties = decode_properties(block.raw)
    headers = properties.headers
    if headers is not None and any(name in headers for name in dropped):
        left = headers.without(*dropped)
        properties = replace(properties, headers=left if len(left) else None)
        block = PropertyBlock(encode_properties(properties))
    return Message(make_route_key("", queue), block, message.body)
