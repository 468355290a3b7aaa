"""The order of deliveries, as one consumer's channel sees it.

Messages that one connection publishes to one queue are numbered. A consumer may get any of them
again, marked as redelivered. A message without the mark was never delivered before, so it is newer
than everything of that connection and queue that the channel has had.
"""

from __future__ import annotations


class Order:
    """What one channel has had. Ids are `STREAM.NUMBER`; each stream has an order of its own."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def broken_by(self, id_: str, is_redelivered: bool) -> str:
        """Take a delivery in, and return what is wrong with it; empty if nothing is."""
        stream, _, digits = id_.rpartition(".")
        number = int(digits)
        newest = self._newest.get(stream, 0)
        self._newest[stream] = max(newest, number)
        if is_redelivered or number > newest:
            return ""
        return f"message {id_} came as new, and number {newest} had come before"
