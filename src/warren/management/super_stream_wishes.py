"""Super streams as requests ask for them: which partitions, of which type, with which arguments."""

from __future__ import annotations

from typing import Final

from warren.broker.super_streams import (
    KEYED_TYPE,
    NUMBERED_TYPE,
    TYPES,
    Partition,
    SuperStreamWish,
    keyed,
    numbered,
)
from warren.management.arguments import table_from_json
from warren.management.bodies import Body
from warren.management.call import Call
from warren.management.errors import bad_request

PARTITIONS_DEFAULT: Final = 3
"""As many as RabbitMQ's tool makes if it is not told a number."""


def wish_of(call: Call, body: Body) -> SuperStreamWish:
    """Return what a PUT asks for; raises a bad request for what makes no sense."""
    name = call.exchange_name()
    type_ = body.text("type", "") or None
    if type_ not in (None, *TYPES):
        raise bad_request(f"the exchange of a super stream is of type {' or '.join(TYPES)}")
    is_numbered = "routing_keys" not in body
    return SuperStreamWish(
        call.vhost.name,
        name,
        _numbered(name, body) if is_numbered else _keyed(name, body),
        type_,
        table_from_json(body.object("arguments")) if "arguments" in body else None,
        call.user.name,
        NUMBERED_TYPE if is_numbered else KEYED_TYPE,
    )


def _numbered(name: str, body: Body) -> tuple[Partition, ...]:
    count = body.get("partitions", PARTITIONS_DEFAULT)
    if isinstance(count, bool) or not isinstance(count, int):
        raise bad_request(["not_integer", "partitions"])
    return numbered(name, count)


def _keyed(name: str, body: Body) -> tuple[Partition, ...]:
    keys = body.get("routing_keys")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise bad_request(["not_strings", "routing_keys"])
    if "partitions" in body:
        raise bad_request("give partitions or routing_keys, not both")
    return keyed(name, [str(key) for key in keys])
