"""What a queue asks of the storage it is in: its index, and whoever moves messages for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from warren.flow.credit import Credit
from warren.wire.codec import Message, QueuedMessage

MESSAGE_OVERHEAD_BYTES: Final = 230
"""What a message in memory takes beside its body: three objects, its properties, its places."""
PLACE_BYTES: Final = 150
"""What is left of that when the body and its properties have gone: order, expiry, size."""


class QueueIndexClient(Protocol):
    """What a queue asks of its index (storage/index/queue_index.py)."""

    on_segmented: Callable[[], None] | None
    on_stored: Callable[[], None] | None
    debtor: Any
    is_patient: bool

    @property
    def embed_below(self) -> int: ...

    def commit(self) -> None: ...

    def publish(self, queued: QueuedMessage) -> None: ...

    def is_stored(self, message: Message) -> bool: ...

    def is_transient(self, queued: QueuedMessage) -> bool: ...

    def write_out(self, queued: QueuedMessage) -> None: ...

    def enter_stored(self, queued: QueuedMessage) -> None: ...

    def ack(self, run: list[QueuedMessage]) -> None: ...

    def ack_range(self, start: int, end: int) -> None: ...


class Reader(Protocol):
    """Brings messages back, off the loop, and calls `done` on it."""

    credit: Credit
    """What is published, and waits in memory for the disk."""

    def read(
        self,
        index: Any,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        """Those alive of the span, oldest first; at least one if any can be read."""

    def read_bodies(
        self, index: Any, entries: list[QueuedMessage], done: Callable[[list[Message | None]], None]
    ) -> None:
        """Tell `done` the message of each, None for what is lost."""

    async def browse(
        self, index: Any, span: tuple[int, int], window: tuple[int, int], bytes_max: int
    ) -> list[QueuedMessage]:
        """Of those alive of the span so many, after having skipped so many (`window`)."""
        raise NotImplementedError

    async def fill(self, index: Any, entries: list[QueuedMessage]) -> None:
        """Give each its message, unless that is lost; for copies that belong to no queue."""

    def note_delivered(self, index: Any, runs: list[tuple[int, int]]) -> None:
        """Whoever reads these (first, count) is to be told that somebody has had them."""

    def mode_changed(self, queue: Any, is_lazy: bool) -> None: ...

    def scatter_now(self) -> None:
        """Have what is journaled in segments: it is to leave memory."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...
