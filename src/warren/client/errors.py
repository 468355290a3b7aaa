"""Errors of a client's AMQP connection."""

from __future__ import annotations


class BrokenStream(Exception):
    """The bytes that the broker sent are not AMQP 0-9-1."""


class ConnectionLost(Exception):
    """The connection, or its only channel, is closed. `code` is the broker's reply code, or 0."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(reason)
        self.code = code
