"""Messages as JSON: properties by name, bodies as text where they are text."""

from __future__ import annotations

import base64
from dataclasses import fields

from warren.management.arguments import printable, table_to_json
from warren.management.json_types import Json, JsonObject
from warren.wire.codec import Message, QueuedMessage
from warren.wire.properties import MalformedProperties, Properties, decode_properties
from warren.wire.route_key import split_octets


def show_message(queued: QueuedMessage, encoding: str, truncate: int | None = None) -> JsonObject:
    """`encoding` is `auto`, which prefers text, or `base64`; of a long body see so many bytes."""
    message = queued.message
    exchange, routing_key = split_octets(message.route_key)
    payload, payload_encoding = _payload(message, encoding, truncate)
    return {
        "exchange": printable(exchange),
        "payload": payload,
        "payload_bytes": len(message.body),
        "payload_encoding": payload_encoding,
        "properties": show_properties(message),
        "redelivered": queued.redelivered,
        "routing_key": printable(routing_key),
    }


def show_properties(message: Message) -> Json:
    """Those that are there; of none at all Erlang makes an empty list."""
    try:
        properties = decode_properties(message.properties.raw)
    except MalformedProperties:
        return []
    shown: JsonObject = {}
    for field in fields(Properties):
        value = getattr(properties, field.name)
        if field.name == "headers" and value is not None:
            shown["headers"] = table_to_json(value)
        elif isinstance(value, str):
            shown[field.name] = printable(value.encode(errors="surrogateescape"))
        elif value is not None:
            shown[field.name] = value
    return shown or []


def _payload(message: Message, encoding: str, truncate: int | None) -> tuple[str, str]:
    body = message.body if truncate is None else message.body[:truncate]
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"
