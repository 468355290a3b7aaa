"""Moments as RabbitMQ writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def show_moment(at_ms: int) -> str:
    """`2026-08-15T20:13:44.123+00:00`, from milliseconds since the epoch."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
