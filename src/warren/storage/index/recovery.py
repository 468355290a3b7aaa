"""What is on the disk, after a start.

    checkpoint -> queues and their segments, what is alive in them
    journal    -> publishes and acknowledgements since, in order

The journal is replayed from a moment before the checkpoint was complete, so some of it is known
already: a publish of what a segment has alive is passed over, an acknowledgement of what is not
alive finds nothing to do. What a publish brings that no segment has is in the journal only, and is
read into memory: the size of the journal bounds it. Segments are not read at all.

Without a checkpoint, or with a damaged one, everything is read: all segments, for what was
published and acknowledged in them, and all journal files there are.

Zeros may follow the last record of a journal file, or a part of one. The end is where the last good
record ends, unless the file after it says otherwise, as what a failed batch left is void.

A damaged record is passed over, counted and reported. In the newest file it is most likely what a
power cut left of a batch that nobody was told was safe; but a good record behind it is used all the
same, since damage in the middle looks alike.

A segment is longer than the checkpoint says if copying to it was interrupted. It is read as far as
is known and cut before it is appended to.

What was read may be in the page cache only, if the process was killed and the machine was not. On
the strength of it files will be deleted, so it is synced first: a power cut must not take back an
acknowledgement whose message is gone.

Nothing is changed before all of this is done, and not at all if a file is missing (completeness.py)
or of a newer format.

Everything here blocks and is run in a thread.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

from warren.storage.disk.files import Disk, read_file
from warren.storage.disk.layout import JOURNAL_SUFFIX, IndexLayout, decode_name, numbered
from warren.storage.index.checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    QueueState,
    decode_checkpoint,
)
from warren.storage.index.completeness import FilesMissing, missing_journal_files, missing_segments
from warren.storage.index.index_format import (
    ACK,
    ACK_RANGE,
    DELETE,
    FILE_HEADER_BYTES,
    FILE_START,
    JOURNAL_MAGIC,
    PUBLISH,
    QUEUE,
    STORED,
    TRANSIENT,
    DamagedHeader,
    NewerFormat,
    parse_file_header,
)
from warren.storage.index.index_host import Bodies
from warren.storage.index.index_records import Record, scan
from warren.storage.index.journal import file_of, position_in
from warren.storage.index.recovering import Findings, RecoveringQueue
from warren.storage.index.segment_survey import check_segments, survey_segments

# The directories of a virtual host and of all of them, and the data directory.
PARENTS_SYNCED: Final = 3

_FILE_START_BYTES: Final = FILE_HEADER_BYTES + 40


class Recovery:
    def __init__(self, layout: IndexLayout, disk: Disk) -> None:
        self._layout = layout
        self._disk = disk
        self.findings = Findings()
        self.checkpoint: Checkpoint | None = None
        self.queues: dict[int, RecoveringQueue] = {}
        self.deleted: list[RecoveringQueue] = []
        self.next_queue_id = 1
        self.salt: int | None = None
        self.journal_sizes: dict[int, int] = {}
        self._before: dict[int, int] = {}  # by journal file, one that was there before it
        self._names: dict[int, str] = {}
        self._bodies: Bodies | None = None

    # 1. The checkpoint.

    def load(self) -> None:
        """Read the checkpoint and look what files there are; raises NewerFormat."""
        self._make_directories()
        names = self._disk.list(self._layout.journal_directory)
        for number in numbered(names, JOURNAL_SUFFIX):
            path = self._layout.journal_file(number)
            self.journal_sizes[number] = self._disk.size(path)
            self._before[number] = self._read_header(path)
        self._load_checkpoint()
        if self.findings.checkpoint_problem:
            check_segments(self._layout, self._disk)
        self._check_journal()

    def _check_journal(self) -> None:
        layout = self._layout
        missing = missing_journal_files(layout, self.checkpoint, self._before)
        was_used = layout.vhost_file.name in self._disk.list(layout.directory)
        if was_used and not self.journal_sizes:
            missing = missing or [layout.journal_directory / f"*{JOURNAL_SUFFIX}"]
        if missing:
            asking = [] if self.checkpoint is None else [layout.checkpoint_file]
            asking += [] if self.journal_sizes else [layout.vhost_file]
            raise FilesMissing(layout, missing, asking)

    def _read_header(self, path: Path) -> int:
        """The number of a file before this one; raises NewerFormat."""
        try:
            salt, following, _ = parse_file_header(
                JOURNAL_MAGIC, read_file(self._disk, path, FILE_HEADER_BYTES)
            )
        except DamagedHeader:
            return -1
        except NewerFormat as error:
            raise NewerFormat(error.version, path) from error
        if self.salt is None:
            self.salt = salt
        return following - 1

    def _load_checkpoint(self) -> None:
        try:
            data = read_file(self._disk, self._layout.checkpoint_file)
            self.checkpoint, states = decode_checkpoint(data)
        except NewerFormat as error:
            raise NewerFormat(error.version, self._layout.checkpoint_file) from error
        except FileNotFoundError:
            if self.journal_sizes or self._disk.list(self._layout.queues_directory):
                self.findings.checkpoint_problem = "no checkpoint file"
            return
        except DamagedCheckpoint as problem:
            self.findings.checkpoint_problem = str(problem)
            return
        self.salt = self.checkpoint.salt
        self.next_queue_id = self.checkpoint.next_queue_id
        self.queues = {state.queue_id: RecoveringQueue(state) for state in states}
        for state in states:
            for segment in state.segments.values():
                segment.forget_transient()
                segment.is_suspect = True
        newest = max(self.journal_sizes, default=0)
        self.findings.is_clean = self.checkpoint.is_clean and newest <= file_of(
            self.checkpoint.store_position
        )

    def _make_directories(self) -> None:
        directory = self._layout.directory
        for path in (self._layout.journal_directory, self._layout.queues_directory):
            self._disk.make_directory(path)
        for path in (directory, *directory.parents[:PARENTS_SYNCED]):
            self._disk.sync_directory(path)

    @property
    def is_new(self) -> bool:
        return self.checkpoint is None and not self.findings.checkpoint_problem

    # 2. The journal.

    def replay(self, bodies: Bodies) -> None:
        self._bodies = bodies
        if self.findings.checkpoint_problem:
            self.queues = survey_segments(self._layout, self._disk, self.findings)
        first = self.checkpoint.journal_from if self.checkpoint is not None else 0
        numbers = sorted(number for number in self.journal_sizes if number >= first)
        self.findings.phase = "journal"
        self.findings.journal_files_total = len(numbers)
        ends = self._ends(numbers)
        for number in numbers:
            self._replay_file(number, ends.get(number), number == numbers[-1])
        self._check_bodies()
        for queue in [queue for queue in self.queues.values() if queue.state.is_deleted]:
            self.deleted.append(queue)
            del self.queues[queue.state.queue_id]
        for queue_id in (*self.queues, *self._names):
            self.next_queue_id = max(self.next_queue_id, queue_id + 1)

    def _ends(self, numbers: list[int]) -> dict[int, int]:
        """Where files end, as the ones after them say."""
        ends = {}
        for number in numbers:
            data = read_file(self._disk, self._layout.journal_file(number), _FILE_START_BYTES)
            records, _, _ = scan(data, FILE_HEADER_BYTES, self._salt_of(data))
            for record in records:
                if record.kind == FILE_START:
                    before = record.count if record.count < record.sequence else -1
                    ends.update({n: FILE_HEADER_BYTES for n in numbers if before < n < number})
                    ends[before] = record.size
        return ends

    def _salt_of(self, data: bytes) -> int:
        try:
            salt, _, _ = parse_file_header(JOURNAL_MAGIC, data)
        except DamagedHeader:
            return self.salt or 0
        if self.salt is None:
            self.salt = salt
        return salt

    def _replay_file(self, number: int, end: int | None, is_newest: bool) -> None:
        path = self._layout.journal_file(number)
        data = read_file(self._disk, path, is_synced=not self.findings.is_clean)[:end]
        if len(data) < FILE_HEADER_BYTES and is_newest:
            self.findings.torn_bytes += len(data)
            self.journal_sizes[number] = len(data)
            return
        records, good_end, damage = scan(data, FILE_HEADER_BYTES, self._salt_of(data))
        self.findings.journal_files += 1
        self.findings.records += len(records)
        self.journal_sizes[number] = good_end
        for start, stop in damage:
            self.findings.damaged(str(path), start, stop)
        rest = len(data.rstrip(b"\0")) - good_end  # zeros were written ahead: they say nothing
        if rest > 0 and is_newest:
            self.findings.torn_bytes += rest
        elif rest > 0:
            self.findings.damaged(str(path), good_end, good_end + rest)
        for record in records:
            self._apply(record, data, position_in(number, record.start))

    def _apply(self, record: Record, data: bytes, position: int) -> None:
        kind = record.kind
        if kind == QUEUE:
            self._names[record.queue_id] = decode_name(record.payload(data))
            return
        if kind == ACK and record.flags & STORED:
            self._died(record, position)
        queue = self._queue(record.queue_id)
        if queue is None:
            return
        if kind == PUBLISH:
            self._publish(queue, record, data, position)
        elif kind == ACK:
            queue.ack(record.sequence, record.count, record.size)
        elif kind == ACK_RANGE:
            queue.ack_range(record.sequence, record.count)
        elif kind == DELETE:
            queue.delete()

    def _queue(self, queue_id: int) -> RecoveringQueue | None:
        queue = self.queues.get(queue_id)
        if queue is None and queue_id in self._names:
            queue = RecoveringQueue(QueueState(queue_id, self._names[queue_id]))
            self.queues[queue_id] = queue
        return queue

    def _publish(self, queue: RecoveringQueue, record: Record, data: bytes, position: int) -> None:
        queue.see(record.sequence)
        if record.flags & TRANSIENT:
            return
        if record.flags & STORED and self._is_after_state(position):
            is_there = self._seen(record.store_file, record.store_offset)
            queue.seen[record.sequence] = is_there
        if not queue.state.is_deleted and not queue.is_segmented(record.sequence):
            queue.journaled[record.sequence] = record.queued(data)

    def _is_after_state(self, position: int) -> bool:
        """Whether the message store's state cannot know what is at this position."""
        return self.checkpoint is not None and position >= self.checkpoint.store_position

    def _seen(self, file: int, offset: int) -> bool:
        assert self._bodies is not None
        return self._bodies.seen(file, offset)

    def _report_lost(self, queue: RecoveringQueue, lost: Counter[int]) -> None:
        """A line for each file that should have had bodies, not for each message."""
        self.findings.lost_bodies += lost.total()
        for file, count in sorted(lost.items()):
            self.findings.problems.append(
                f"queue '{queue.state.name}': {count} messages are lost, "
                f"their bodies are not in {file}.rdq"
            )

    def _missed(self, file: int) -> None:
        assert self._bodies is not None
        self._bodies.missed(file)

    def _died(self, record: Record, position: int) -> None:
        if self._is_after_state(position):
            assert self._bodies is not None
            self._bodies.died(record.store_file, record.store_offset, record.size)

    def _check_bodies(self) -> None:
        """Drop what has lost its body; without a checkpoint, tell the store what is wanted."""
        for queue in self.queues.values():
            lost: Counter[int] = Counter()
            if self.checkpoint is None:
                queue.orphans.clear()  # the store takes what it is not told of for garbage
            for sequence, queued in list(queue.journaled.items()):
                if queued.store_file < 0:
                    continue
                is_there = queue.seen.get(sequence)
                if is_there is None:
                    is_there = self._seen(queued.store_file, queued.store_offset)
                if not is_there:
                    del queue.journaled[sequence]
                    lost[queued.store_file] += 1
                    queue.lost.append(sequence)
                    self._missed(queued.store_file)
            for sequence, (file, offset) in queue.stored.items():
                if queue.is_segmented(sequence) and not self._seen(file, offset):
                    queue.ack(sequence, 1, 0)
                    lost[file] += 1
            self._report_lost(queue, lost)

    def check_files(self, missing_bodies: list[Path]) -> None:
        """After all else, before anything is changed. Raises FilesMissing."""
        if self.checkpoint is None:
            return
        states = [queue.state for queue in self.queues.values()]
        missing = missing_segments(self._layout, self._disk, states)
        missing += missing_bodies
        if missing:
            raise FilesMissing(self._layout, missing, [self._layout.checkpoint_file])
