"""Quorum queues tell consumers how often a message came back: the x-delivery-count header."""

from __future__ import annotations

from typing import Final

from warren.model.fields import EMPTY_TABLE, long
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, decode_properties, encode_properties

DELIVERY_COUNT_HEADER: Final = "x-delivery-count"


def with_delivery_count(message: Message, count: int) -> Message:
    """The message as a consumer gets it for the (count + 1)th time."""
    properties = decode_properties(message.properties.raw)
    headers = properties.headers or EMPTY_TABLE
    properties.headers = headers.replacing(DELIVERY_COUNT_HEADER, long(count))
    block = PropertyBlock(encode_properties(properties))
    return Message(message.route_key, block, message.body, message.flags)


def without_delivery_count(properties: Properties) -> Properties:
    """Dead letters do not tell how often they were tried."""
    if properties.headers is not None:
        properties.headers = properties.headers.without(DELIVERY_COUNT_HEADER)
    return properties
