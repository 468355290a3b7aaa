"""Bindings as JSON, and the key by which one binding between two ends is told from the others.

The key is the routing key, percent-encoded; `~` stands for an empty one. With arguments a digest of
them follows behind a `~`. RabbitMQ's digest is Erlang's; ours is as long, and made otherwise.
"""

from __future__ import annotations

import base64
import zlib
from typing import Final
from urllib.parse import quote_plus

from warren.management.arguments import table_to_json
from warren.management.json_types import JsonObject
from warren.model.fields import Table
from warren.model.records import BindingRecord
from warren.wire.tables import encode_table

NO_KEY: Final = "~"
_DIGEST_BYTES: Final = 4


def describe_binding(binding: BindingRecord) -> JsonObject:
    return {
        "source": binding.source,
        "vhost": binding.vhost,
        "destination": binding.destination.name,
        "destination_type": binding.destination.kind.value,
        "routing_key": binding.routing_key,
        "arguments": table_to_json(binding.arguments),
    }


def show_binding(binding: BindingRecord) -> JsonObject:
    return {**describe_binding(binding), "properties_key": properties_key(binding)}


def properties_key(binding: BindingRecord) -> str:
    key = quote_plus(binding.routing_key, safe="").replace("~", "%7E")
    if not len(binding.arguments):
        return key or NO_KEY
    return f"{key}~{_digest(binding.arguments)}"


def _digest(arguments: Table) -> str:
    checksum = zlib.crc32(encode_table(arguments)).to_bytes(_DIGEST_BYTES, "big")
    return base64.urlsafe_b64encode(checksum).decode().rstrip("=")
