"""Quorum queues tell consumers how often a message came back: the x-delivery-count header."""

from __future__ import annotations

from typing import Final

from warren.model.fields import EMPTY_TABLE, long
from warren.wire.codec import Message, PropertyBlock, QueuedMessage
from warren.wire.properties import decode_properties, encode_properties

DELIVERY_COUNT_HEADER: Final = "x-delivery-count"


def counting_deliveries(queued: QueuedMessage) -> int:
    """Note that the message comes back once more; returns how often it has."""
    queued.delivery_count += 1
    message = queued.message
    properties = decode_properties(message.properties.raw)
    headers = properties.headers or EMPTY_TABLE
    properties.headers = headers.replacing(DELIVERY_COUNT_HEADER, long(queued.delivery_count))
    block = PropertyBlock(encode_properties(properties))
    queued.message = Message(message.route_key, block, message.body, message.flags)
    return queued.delivery_count
