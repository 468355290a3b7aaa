"""What the index asks of others: of the one who runs it, and of the message stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from warren.flow.credit import Credit
from warren.storage.disk.committer import Committer
from warren.storage.disk.credits import journal_credit, paging_credit, store_credit
from warren.storage.disk.files import Buffer, Disk
from warren.storage.disk.workers import Workers
from warren.wire.codec import QueuedMessage

if TYPE_CHECKING:
    from warren.storage.index.queue_index import QueueIndex


class Promise(Awaitable[None], Protocol):
    """An asyncio Future, for one."""

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...

    def done(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class IndexHost:
    """`credit` is charged with what is alive and in memory because no segment has it yet;
    `journal_credit` and `store_credit` with what of that is not safe yet, `paging_credit` with what
    is in a queue that is to save memory. Without `call_later` nothing waits longer than a turn."""

    disk: Disk
    committer: Committer
    workers: Workers
    call_soon: Callable[[Callable[[], None]], object]
    new_promise: Callable[[], Promise]
    random_bits: Callable[[int], int]
    credit: Credit | None = None
    journal_credit: Credit = field(default_factory=journal_credit)
    store_credit: Credit = field(default_factory=store_credit)
    paging_credit: Credit = field(default_factory=paging_credit)
    call_later: Callable[[float, Callable[[], None]], object] | None = None


class Bodies(Protocol):
    """A message store (message_store.py)."""

    def write(self, queued: QueuedMessage) -> None: ...

    def cancel(self, queued: QueuedMessage) -> bool: ...

    def died(self, file: int, offset: int, size: int) -> None: ...

    def take_writes(self) -> tuple[list[tuple[int, Sequence[Buffer]]], list[int]]: ...

    def batch_done(self, error: OSError | None) -> None: ...

    def checkpoint_state(self) -> bytes: ...

    async def open(self, state: bytes | None = None) -> None: ...

    def seen(self, file: int, offset: int) -> bool: ...

    def missed(self, file: int) -> None: ...

    async def missing_files(self) -> list[Path]: ...

    async def recovered(self) -> None: ...

    def begin_chores(self) -> None: ...

    async def close(self) -> None: ...


class Dirty(Protocol):
    """Whom a queue tells that it has something to write (batches.py)."""

    embed_below: int
    credit: Credit | None
    journal_credit: Credit
    store_credit: Credit
    bodies: Bodies
    transient_bodies: Bodies

    def mark(self, queue: QueueIndex) -> None:
        """Somebody waits until what it has is safe."""

    def mark_lazily(self, queue: QueueIndex) -> None:
        """Nobody waits for it."""

    def hurry(self) -> None:
        """A queue that was marked lazily has something now that somebody waits for."""


class Reader(Protocol):
    """Who brings a queue's messages back from segments (index.py)."""

    def read(
        self,
        queue: QueueIndex,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None: ...
