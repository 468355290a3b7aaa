"""What can go wrong between Spark and the broker, in words that say what to do about it.

Errors cross from Python workers to the driver as text, so each is complete in its message, and can
be pickled by that message alone.
"""

from __future__ import annotations

__all__ = [
    "BrokerUnavailable", "DataLost", "InvalidOption", "MalformedAnswer", "NotAStream",
    "NotAuthorised", "PublishFailed", "QueueMissing", "WarrenError",
]  # fmt: skip


class WarrenError(Exception):
    """The source or the sink cannot go on."""


class InvalidOption(WarrenError, ValueError):
    """An option, or a column of a DataFrame, is not what it should be."""


class QueueMissing(WarrenError):
    """There is no such queue, or no such virtual host."""


class NotAuthorised(WarrenError):
    """Wrong credentials, or no permission to do this."""


class NotAStream(WarrenError):
    """A queue that forgets what it delivers cannot be read by offsets."""


class DataLost(WarrenError):
    """Records were removed before they were read."""

    def __init__(self, message: str, first_offset: int = 0) -> None:
        super().__init__(message)
        self.first_offset = first_offset


class BrokerUnavailable(WarrenError):
    """No node answers."""


class MalformedAnswer(WarrenError):
    """What came is not what a Warren broker says."""


class PublishFailed(WarrenError):
    """The broker did not take a message."""
