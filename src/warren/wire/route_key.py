"""The route key: exchange and routing key of a message, as two short strings on the wire."""

from __future__ import annotations

from warren.model.errors import frame_error


def split_octets(route_key: bytes) -> tuple[bytes, bytes]:
    exchange_end = 1 + route_key[0]
    return route_key[1:exchange_end], route_key[exchange_end + 1 :]


def split_route_key(route_key: bytes) -> tuple[str, str]:
    """Exchange and routing key, as names."""
    exchange, routing_key = split_octets(route_key)
    try:
        return exchange.decode(), routing_key.decode()
    except UnicodeDecodeError:
        raise frame_error("Malformed UTF-8 in shortstr") from None


def make_route_key(exchange: str, routing_key: str) -> bytes:
    source, key = exchange.encode(), routing_key.encode()
    return bytes((len(source),)) + source + bytes((len(key),)) + key
