"""The route key: exchange and routing key of a message, as two short strings on the wire."""

from __future__ import annotations

from warren.model.errors import frame_error


def split_route_key(route_key: bytes) -> tuple[str, str]:
    """Exchange and routing key, as names."""
    exchange_end = 1 + route_key[0]
    try:
        return route_key[1:exchange_end].decode(), route_key[exchange_end + 1 :].decode()
    except UnicodeDecodeError:
        raise frame_error("Malformed UTF-8 in shortstr") from None


def make_route_key(exchange: str, routing_key: str) -> bytes:
    source, key = exchange.encode(), routing_key.encode()
    return bytes((len(source),)) + source + bytes((len(key),)) + key
