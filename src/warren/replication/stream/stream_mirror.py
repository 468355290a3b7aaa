"""A mirror of a stream: a log that grows by its master's chunks, byte for byte.

What it holds is a beginning of its master's log, from the moment on that it was told where the two
part (`Began`). It takes a chunk that begins where it ends (see `stream_instructions`), so it has no
gaps, and lacks only what is newest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from warren.replication.classic.instructions import MalformedInstruction, OriginRun
from warren.replication.classic.mirror import Mirror
from warren.replication.classic.origins import make_room_for
from warren.replication.classic.received import Received
from warren.replication.classic.retained import RetainedMessages
from warren.replication.stream.stream_instructions import Began, Chunk, chunks_in, decode
from warren.storage.queue.variable_queue import VariableQueue
from warren.streams.log import StreamLog
from warren.streams.pending_chunks import PendingChunk


class StreamMirror(Mirror):
    """It has no levels: `log` is what it has."""

    def __init__(
        self,
        member: str,
        log: StreamLog,
        on_held: Callable[[int, bool], None],
        on_failed: Callable[[], None],
    ) -> None:
        super().__init__(member, _no_level, on_held, on_failed)
        self.log = log
        self.committed = 0
        """All in sync hold what is before this offset, as far as is known, and it is, here."""
        self._told_committed = 0
        self._unwritten: deque[tuple[int, Received]] = deque()
        """Batches that are not safe before the log is, up to these offsets."""
        log.limits = replace(log.limits, bytes_max=None, age_ms_max=None)
        log.hold(self, 0)

    @property
    def depth(self) -> int:
        return self.log.next_offset - self.log.first_offset

    def report_retained(self) -> RetainedMessages:
        """The last chunks that are here: nothing is added before the master has seen them."""
        self.boundary = None
        return RetainedMessages(self.log.tail.fingerprints(), {}, {})

    def handle(self, payload: bytes | memoryview) -> None:
        number, instruction, data = decode(payload)
        self.number = number
        received = Received(number, self.progress, self._on_failed)
        received.unsafe = 1
        if isinstance(instruction, Began):
            if instruction.member == self.member:
                self._begin_at(instruction, received)
            else:
                self._received.append(received)
        else:
            self._received.append(received)
            if isinstance(instruction, Chunk):
                self._heed(instruction, data, received)
            elif instruction.member == self.member:
                self._take_copied(data, received)
        received.confirmed(0)

    def _begin_at(self, began: Began, received: Received) -> None:
        self._received = deque([received])  # what is on its way to the disk counts no more
        self._unwritten.clear()
        self.boundary = {}
        self.numbers = dict(began.numbers)
        self.lacking = None
        received.unsafe += 1
        log = self.log
        if began.kept is not None:
            log.cut(began.kept, lambda: received.confirmed(0))
            if log.written_end < began.kept:
                self._await_written(began.kept, received)
        elif (log.first_offset, log.next_offset) == (began.base, began.base):
            received.confirmed(0)
        else:
            log.cut(began.base, lambda: received.confirmed(0), is_anew=True)
        self.committed = self._told_committed = 0
        self._learn_committed(began.committed)

    def _heed(self, chunk: Chunk, data: memoryview, received: Received) -> None:
        if self.boundary is None:
            return
        self._take(data, received)
        follow(chunk.origins, self.numbers)
        self._learn_committed(chunk.committed)
        self.log.forget_below(min(chunk.first_offset, self.committed))

    def _take(self, data: memoryview, received: Received) -> None:
        """Of these chunks, those that continue what is here."""
        log = self.log
        if self.boundary is None:
            return
        for chunk in chunks_in(data, log.next_offset):
            if chunk.first_offset == log.next_offset:
                log.append(chunk)
                self._await_written(chunk.end, received)

    def _take_copied(self, data: memoryview, received: Received) -> None:
        """The master counts on these being here: so there is nothing between."""
        first = next(chunks_in(data, 0)).first_offset
        if self.boundary is None or first > self.log.next_offset:
            raise MalformedInstruction(f"copied from {first}, here is {self.log.next_offset}")
        self._take(data, received)
        self._learn_committed(self._told_committed)  # of which more is here now

    def _await_written(self, end: int, received: Received) -> None:
        received.unsafe += 1
        self._unwritten.append((end, received))

    def _learn_committed(self, committed: int) -> None:
        """Not more than is here: one that lags behind has not all that is committed."""
        self._told_committed = max(self._told_committed, committed)
        self.committed = min(self._told_committed, self.log.next_offset)
        self.log.release(min(self.committed, self.log.written_end))

    # What its log tells.

    def encoded(self, chunks: list[PendingChunk]) -> None:
        raise AssertionError("nobody publishes to a mirror")

    def written(self, end: int) -> None:
        while self._unwritten and self._unwritten[0][0] <= end:
            self._unwritten.popleft()[1].confirmed(0)
        self.log.release(min(self.committed, end))

    def failed(self) -> None:
        self._on_failed()

    def counted(self) -> None:
        """Nobody looks."""


def follow(origins: Iterable[OriginRun], numbers: dict[str, int]) -> None:
    """Note the last publish of each."""
    for origin, first, count in origins:
        if origin not in numbers:
            make_room_for(origin, numbers)
        numbers[origin] = first + count - 1


def _no_level(number: int) -> VariableQueue:
    raise AssertionError("a stream has no levels")
