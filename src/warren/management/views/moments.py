"""Moments as RabbitMQ writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from warren.management.json_types import JsonObject
from warren.model.counters import MessageCounters

if TYPE_CHECKING:
    from warren.server.node import Node


def show_moment(at_ms: int) -> str:
    """`2026-08-15T20:13:44.123+00:00`, from milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def show_idle_since(shown: JsonObject, node: Node, counters: MessageCounters) -> None:
    """Only what is idle says since when."""
    since_ms = node.statistics.idle_since_ms(counters)
    if since_ms is not None:
        shown["idle_since"] = show_moment(since_ms)
