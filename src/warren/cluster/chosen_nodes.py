"""Chosen nodes: where an operator wants the copies of a quorum queue, as stored for all nodes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


def encode_chosen(nodes: Sequence[str]) -> bytes:
    return msgspec.json.encode(list(nodes))


def decode_chosen(value: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(value, type=tuple[str, ...])
