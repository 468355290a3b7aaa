"""Records as the rest of storage sees them: both twins offer exactly this."""

from typing import final

from warren.wire.codec import QueuedMessage

EMBEDDED: int

@final
class RecordBuffer:
    """Records to be written, one after another in one piece of memory."""

    @property
    def size(self) -> int: ...
    def __init__(self, salt: int) -> None: ...
    def clear(self) -> None:
        """Begin anew; views given out before must have been released."""
    def view(self) -> memoryview: ...
    def publishes(
        self, queue_id: int, gathered: list[QueuedMessage], position: int, bytes_max: int
    ) -> int:
        """Those still GATHERED become WRITING; returns where to go on once the buffer is full."""
    def scatter(
        self, queue_id: int, journaled: list[QueuedMessage], position: int, end: int, bytes_max: int
    ) -> int:
        """The same for what is JOURNALED and becomes SCATTERING, up to sequence number `end`."""
    def ack(self, queue_id: int, first: int, count: int, body_bytes: int) -> None: ...
    def ack_stored(
        self, queue_id: int, sequence: int, body_bytes: int, file: int, offset: int
    ) -> None: ...
    def ack_range(self, queue_id: int, first: int, end: int) -> None: ...
    def queue_named(self, queue_id: int, name: bytes) -> None: ...
    def queue_deleted(self, queue_id: int) -> None: ...
    def file_started(self, number: int, previous: int, previous_end: int) -> None: ...

@final
class Record:
    """A record found at `start` of the bytes scanned. Which fields mean something: the format."""

    @property
    def kind(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def expires_at_ms(self) -> int: ...
    @property
    def store_file(self) -> int: ...
    @property
    def store_offset(self) -> int: ...
    def payload(self, data: bytes) -> bytes: ...
    def queued(self, data: bytes) -> QueuedMessage:
        """The message a PUBLISH is about; without content if the message store has that."""

def scan(data: bytes, start: int, salt: int) -> tuple[list[Record], int, list[tuple[int, int]]]:
    """All good records, where the last of them ends, and which stretches before are damaged."""

@final
class EntryReader:
    """Makes messages of a segment that begins at sequence number `base`."""

    left: int
    @property
    def position(self) -> int: ...
    @property
    def passed(self) -> int: ...
    @property
    def damaged(self) -> int: ...
    def __init__(self, salt: int, base: int, wanted: bytes) -> None: ...
    def read(self, data: bytes, start: int, bytes_max: int) -> list[QueuedMessage]:
        """Those that `wanted` has a bit for, of about `bytes_max` together.

        Leaves in `position` where to go on, in `passed` the number after the highest it came by,
        and in `left` how many it has yet to find: no record after the last of these is looked at.
        Counts in `damaged` the bytes it could make nothing of.
        """
