"""Policies and parameters as bytes: JSON, as RabbitMQ's own definitions have them.

The standard library's encoder, not the faster one: a time to live may be any whole number.
"""

from __future__ import annotations

import json
from typing import Any

from warren.metadata.codec import LAYOUT, UnreadableRecord
from warren.model.json_terms import JsonValue
from warren.model.records import Policy


def encode_policy(policy: Policy) -> bytes:
    stored = {"layout": LAYOUT, "vhost": policy.vhost, "name": policy.name, **policy.terms()}
    return json.dumps(stored, ensure_ascii=False).encode()


def decode_policy(data: bytes) -> Policy:
    stored = _decode(data)
    try:
        return Policy(
            stored["vhost"],
            stored["name"],
            stored["pattern"],
            stored["definition"],
            stored["priority"],
            stored["apply-to"],
        )
    except KeyError as error:
        raise UnreadableRecord(f"no {error}: {data[:80]!r}") from error


def encode_parameter(value: JsonValue) -> bytes:
    return json.dumps({"layout": LAYOUT, "value": value}, ensure_ascii=False).encode()


def decode_parameter(data: bytes) -> JsonValue:
    stored = _decode(data)
    value: JsonValue = stored.get("value")
    return value


def _decode(data: bytes) -> dict[str, Any]:
    try:
        stored = json.loads(data)
    except ValueError as error:
        raise UnreadableRecord(f"{error}: {data[:80]!r}") from error
    if not isinstance(stored, dict) or not isinstance(stored.get("layout"), int):
        raise UnreadableRecord(f"not a record: {data[:80]!r}")
    if stored["layout"] > LAYOUT:
        raise UnreadableRecord(f"layout {stored['layout']} is newer than {LAYOUT}, which we know")
    return stored
