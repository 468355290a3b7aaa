"""Bodies that wait for a batch, and those of the batch that is being written.

A message waits without a place. Places are given when the batch is taken, one after another, to
those that are still wanted by then: what is published, delivered and acknowledged between two
batches takes neither room nor time on the disk. All queues that have the same message by then
share one record, with as many references.

Bodies are handed over by reference and never copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from warren.storage.bodies.record_format import OFFSET_MAX, TRAILER
from warren.storage.bodies.record_head import encode_head
from warren.storage.bodies.store_files import StoreFile
from warren.storage.disk.files import Buffer
from warren.wire.codec import Message, QueuedMessage

Owners: TypeAlias = QueuedMessage | list[QueuedMessage]
Pieces: TypeAlias = list[Buffer]


class Stretch:
    """What one batch adds to one file."""

    def __init__(self, file: StoreFile) -> None:
        self.file = file
        self.start = file.size
        self.pieces: Pieces = []

    def add(self, message: Message, references: int) -> int:
        """Place a record; where."""
        file = self.file
        offset = file.size
        head = encode_head(message, references, file.number, offset, file.salt)
        body = message.body
        self.pieces.append(head)
        self.pieces.append(body)
        self.pieces.append(TRAILER)
        file.size = offset + len(head) + len(body) + 1
        file.add(references, len(body))
        return offset


class WriteBuffer:
    def __init__(self) -> None:
        self.waiting: dict[Message, Owners] = {}
        self.waiting_bytes = 0
        self.flight: dict[Message, Owners] = {}
        self.stretches: list[Stretch] = []
        self._placed: dict[tuple[int, int], Message] | None = None

    def write(self, queued: QueuedMessage) -> None:
        message = queued.message
        owners = self.waiting.get(message)
        if owners is None:
            self.waiting[message] = queued
            self.waiting_bytes += len(message.body)
        elif isinstance(owners, list):
            owners.append(queued)
        else:
            self.waiting[message] = [owners, queued]

    def cancel(self, queued: QueuedMessage) -> bool:
        """Whether it was still waiting; then it is forgotten."""
        message = queued.message
        owners = self.waiting.get(message)
        if owners is None:
            return False
        if isinstance(owners, list):
            if queued not in owners:
                return False
            owners.remove(queued)
            if owners:
                return True
        elif owners is not queued:
            return False
        del self.waiting[message]
        self.waiting_bytes -= len(message.body)
        return True

    def take(
        self, file: StoreFile, file_bytes: int, successor: Callable[[StoreFile], StoreFile]
    ) -> StoreFile:
        """Give everything its place; the file that ends up as the one to append to."""
        assert not self.flight, "one batch at a time"
        stretch = Stretch(file)
        self.stretches = [stretch]
        for message, owners in self.waiting.items():
            if file.size >= file_bytes:
                file = successor(file)
                if file is not stretch.file:
                    stretch = Stretch(file)
                    self.stretches.append(stretch)
            if isinstance(owners, list):
                offset = stretch.add(message, len(owners))
                for queued in owners:
                    queued.store_file = file.number
                    queued.store_offset = offset
            else:
                owners.store_file = file.number
                owners.store_offset = stretch.add(message, 1)
        assert file.size <= OFFSET_MAX
        self.flight, self.waiting = self.waiting, {}
        self.waiting_bytes = 0
        return file

    def cached(self, file: int, offset: int) -> Message | None:
        """The message at this place, while its batch is being written."""
        if not self.flight:
            return None
        if self._placed is None:
            self._placed = {}
            for message, owners in self.flight.items():
                one = owners[0] if isinstance(owners, list) else owners
                self._placed[one.store_file, one.store_offset] = message
        return self._placed.get((file, offset))

    def land(self) -> list[Stretch]:
        """The batch is over, well or not."""
        stretches, self.stretches = self.stretches, []
        self.flight = {}
        self._placed = None
        return stretches

    def give_back(self) -> list[tuple[int, int, int, int]]:
        """Nothing of the batch is safe: (file, offset, references, size) of what is void.

        Its messages are in no file again; what was dropped from memory comes back.
        """
        void = []
        for message, owners in self.flight.items():
            group = owners if isinstance(owners, list) else [owners]
            one = group[0]
            void.append((one.store_file, one.store_offset, len(group), len(message.body)))
            for queued in group:
                queued.store_file = -1
                queued.store_offset = 0
                queued.message = message
        return void
