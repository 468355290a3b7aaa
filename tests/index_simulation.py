"""An index with its message stores, on a disk that may lose power, one small step at a time.

Everything that would happen on the loop or in a thread is a step, and a dice decides which comes
next; so one number, the seed, decides the whole history, and gives it again.

The model knows of every message what was promised:

    confirmed, not acknowledged       must be there after a crash, exactly once, in order
    acknowledged, in a finished batch must not come back
    all else                          may be there or not
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from faulty_disk import FaultyDisk
from stepping import Job, PowerCut, StepCommitter, StepPromise, StepWorkers
from warren.flow.credit import Credit
from warren.storage.bodies.message_store import MessageStore
from warren.storage.disk.layout import IndexLayout
from warren.storage.index import journal, scatter, segment_writing
from warren.storage.index.adoption import RecoveredQueue
from warren.storage.index.index import IndexStore
from warren.storage.index.index_host import IndexHost
from warren.storage.index.states import SEGMENTED
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

T = TypeVar("T")

PERSISTENT: Final = PropertyBlock(b"\x10\x00\x02")
TRANSIENT: Final = PropertyBlock(b"\x10\x00\x01")
ROUTE_KEY: Final = b"\x00\x05queue"
QUEUES: Final = ("one", "two", "three")
EMBED_BELOW: Final = 200
JOURNAL_FILE_BYTES: Final = 4_000
STORE_FILE_BYTES: Final = 3_000


@dataclass(slots=True, eq=False)
class Known:
    """One message of the model."""

    queued: QueuedMessage | None
    body: bytes
    is_transient: bool
    is_confirmed: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class QueueModel:
    """`gone` may come back until the batch that has the acknowledgement is safe."""

    alive: dict[int, Known] = field(default_factory=dict)
    gone: dict[int, bytes] = field(default_factory=dict)
    gone_in_flight: dict[int, bytes] = field(default_factory=dict)
    next_sequence: int = 0


class Confirmer:
    origin = None

    def __init__(self, known: Known) -> None:
        self.known = known

    def confirmed(self, sequence: int) -> None:
        assert not self.known.is_confirmed, f"{sequence} was confirmed twice"
        self.known.is_confirmed = True

    def rejected(self, sequence: int) -> None:
        assert not self.known.is_confirmed, f"{sequence} was confirmed and refused"
        self.known.is_refused = True


class IndexSimulation:
    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.dice = random.Random(seed)
        self.models: dict[str, QueueModel] = {}
        self.lives = 0
        self.changes = 0
        self.dying = QueueModel()
        self.dying_name = ""
        segment_writing.STEP_BYTES = 1_500  # type: ignore[misc]
        segment_writing.STEP_FILES_MAX = 3  # type: ignore[misc]
        scatter.SYNC_BYTES = 4_000  # type: ignore[misc]
        journal.FILL_BYTES_MIN = 300  # type: ignore[misc]
        journal.FILL_BYTES_MAX = 1_200  # type: ignore[misc]
        journal.FILLED_BATCH_BYTES_MAX = 800  # type: ignore[misc]

    # One life: from a start to a crash or a stop.

    def begin(self, disk: FaultyDisk) -> dict[str, RecoveredQueue]:
        """Start, and compare what is there with what was promised."""
        self.disk = disk
        self.lives += 1
        self.workers = StepWorkers()
        self.committer = StepCommitter(disk)
        self.soon: list[Callable[[], None]] = []
        self.reads = 0
        self.bodies = MessageStore(
            self.directory / "msg_store_persistent", disk, self.workers, salt=5
        )
        self.bodies.file_bytes = STORE_FILE_BYTES
        self.transient_bodies = MessageStore(
            self.directory / "msg_store_transient", disk, self.workers, is_transient=True
        )
        self.transient_bodies.file_bytes = STORE_FILE_BYTES
        self.credit = Credit(1 << 40)
        self.journal_credit = Credit(1 << 40)
        self.store_credit = Credit(1 << 40)
        host = IndexHost(
            disk,
            self.committer,
            self.workers,
            self.soon.append,
            StepPromise,
            self._bits,
            self.credit,
            self.journal_credit,
            self.store_credit,
        )
        layout = IndexLayout(self.directory, "/")
        self.index = IndexStore(layout, host, self.bodies, self.transient_bodies)
        self.index.embed_below = EMBED_BELOW
        self.index.journal_file_bytes = JOURNAL_FILE_BYTES
        recovered = {queue.name: queue for queue in self.result_of(self.index.open())}
        self._compare(recovered)
        self.committer.on_submit = self._submitted
        self.committer.on_safe = self._safe
        return recovered

    def _bits(self, count: int) -> int:
        return self.dice.getrandbits(count)

    def _submitted(self) -> None:
        for model in self.models.values():
            model.gone_in_flight.update(model.gone)
            model.gone = {}

    def _safe(self) -> None:
        for model in self.models.values():
            model.gone_in_flight = {}

    # Steps.

    def step(self) -> None:
        """Let one thing go on; raises PowerCut if that was the last one."""
        way = self.dice.randrange(3)
        try:
            if way == 0 and self.soon:
                self.soon.pop(0)()
            elif way == 1:
                self.committer.step()
            else:
                self.workers.step(self.dice)
        finally:
            if self.disk.is_crashed:
                raise PowerCut

    def drive(self, work: Coroutine[object, object, object]) -> None:
        """Let everything go on until this is done."""

        async def wrapped() -> None:
            await work

        job = Job(wrapped())
        self.workers.jobs.append(job)
        try:
            for _ in range(200_000):
                if job.is_done:
                    return
                self.step()
        finally:
            work.close()
        raise AssertionError("it does not end")

    def result_of(self, work: Coroutine[object, object, T]) -> T:
        results: list[T] = []

        async def keep() -> None:
            results.append(await work)

        try:
            self.drive(keep())
        finally:
            work.close()  # the power may be gone before it has begun
        return results[0]

    def settle(self) -> None:
        """Let everything go on until nothing does."""
        self.drive(self.index.flush())
        for _ in range(200_000):
            if not self.workers.jobs and not self.soon and self.committer.is_idle:
                self._check_credit()
                return
            self.step()
        raise AssertionError("it does not come to rest")

    def _check_credit(self) -> None:
        """What is alive and not in segments is charged, and nothing else."""
        known = [k.queued for model in self.models.values() for k in model.alive.values()]
        waiting = [q for q in known if q is not None and q.state != SEGMENTED]
        assert self.credit.bytes_used == sum(q.size + 64 for q in waiting)
        assert self.journal_credit.bytes_used == self.store_credit.bytes_used == 0

    # What clients do.

    def act(self) -> None:
        dice = self.dice
        name = dice.choice(QUEUES)
        way = dice.random()
        if way < 0.45:
            self.publish(name)
        elif way < 0.75:
            self.ack(name)
        elif way < 0.82:
            self.fan_out()
        elif way < 0.88:
            self.read(name)
        elif way < 0.90:
            self.purge(name)
        elif way < 0.91:
            self.delete(name)
        elif way < 0.92:
            self.index.want_checkpoint()
        for _ in range(dice.choice((0, 0, 1, 2, 5, 20))):
            self.step()

    def publish(self, name: str, message: Message | None = None) -> None:
        dice = self.dice
        model = self.models.setdefault(name, QueueModel())
        model.next_sequence += dice.choice((0, 0, 0, 0, 1, 300))
        if message is None:
            properties = TRANSIENT if dice.random() < 0.15 else PERSISTENT
            size = dice.choice((0, 10, 60, EMBED_BELOW, 600))
            message = Message(ROUTE_KEY, properties, dice.randbytes(size))
        queued = QueuedMessage(message, model.next_sequence, 0)
        model.next_sequence += 1
        is_transient = not message.properties.persistent
        known = Known(queued, message.body, is_transient)
        model.alive[queued.sequence] = known
        queued.publisher = Confirmer(known)
        queued.publisher_sequence = queued.sequence
        self.index.queue(name).publish(queued)

    def fan_out(self) -> None:
        size = self.dice.choice((20, 300, 900))
        message = Message(ROUTE_KEY, PERSISTENT, self.dice.randbytes(size))
        for name in self.dice.sample(QUEUES, 2):
            self.publish(name, message)

    def ack(self, name: str) -> None:
        model = self.models.get(name)
        if model is None:
            return
        held = [s for s, known in model.alive.items() if known.queued is not None]
        dice = self.dice
        if not held:
            return
        start = dice.choice((0, 0, dice.randrange(len(held))))
        chosen = held[start : start + dice.choice((1, 3, 20))]
        run_ = []
        for sequence in chosen:
            known = model.alive.pop(sequence)
            assert known.queued is not None
            run_.append(known.queued)
            if not known.is_transient:
                model.gone[sequence] = known.body
        self.index.queue(name).ack(run_)

    def purge(self, name: str) -> None:
        model = self.models.get(name)
        if model is None or not model.alive:
            return
        queue = self.index.queue(name)
        in_memory = [
            known.queued
            for known in model.alive.values()
            if known.queued is not None and known.queued.state != SEGMENTED
        ]
        queue.ack(in_memory)
        queue.ack_range(min(model.alive), max(model.alive) + 1)
        for sequence, known in model.alive.items():
            if not known.is_transient:
                model.gone[sequence] = known.body
        model.alive.clear()

    def delete(self, name: str) -> None:
        if name in self.models:
            self.dying = self.models.pop(name)
            self.dying_name = name
            self.drive(self.index.delete_queue(name))
            self.dying_name = ""

    def read(self, name: str) -> None:
        """Compare what is in segments with the model, when it has come."""
        model = self.models.get(name)
        if model is None:
            return
        expected = {
            sequence
            for sequence, known in model.alive.items()
            if known.queued is None or known.queued.state == SEGMENTED
        }
        started_with = set(model.alive)
        self.reads += 1

        def done(entries: list[QueuedMessage]) -> None:
            self.reads -= 1
            sequences = [queued.sequence for queued in entries]
            assert sequences == sorted(set(sequences)), "in order, each once"
            if self.models.get(name) is not model:
                return
            assert set(sequences) <= started_with | set(model.alive), "nothing dead is read"
            assert {s for s in expected if s in model.alive} <= set(sequences), "nothing is missing"
            for queued in entries:
                known = model.alive.get(queued.sequence)
                if known is not None:
                    _compare_bodies(queued, known.body)
                    if known.queued is None:
                        known.queued = queued

        self.index.queue(name).read(0, 1 << 40, 1 << 30, done)

    # Ends.

    def stop(self) -> None:
        """Cleanly."""
        self.drive(self.index.close())
        self.drive(self.bodies.close())
        self.drive(self.transient_bodies.close())
        self.workers.abandon()
        self.changes = len(self.disk.changes)
        left_open = [state.path.name for state in self.disk._open.values()]
        assert not left_open, f"everything is closed, but {left_open}"
        if self.index.is_failing:
            return
        for model in self.models.values():
            model.gone = {}
            model.gone_in_flight = {}

    def crash(self) -> None:
        """The power goes: what was not synced may be gone, or half there."""
        self.disk.crash()
        self.kill()

    def kill(self) -> None:
        """Only the process ends: what was written is there, though not all of it is safe."""
        self.workers.abandon()
        for descriptor in list(self.disk._open):
            self.disk.close(descriptor)
        self.changes = len(self.disk.changes)

    # Afterwards.

    def _compare(self, recovered: dict[str, RecoveredQueue]) -> None:
        """What was promised is there; the model goes on with what is."""
        if self.dying_name in recovered:  # its deletion was not finished, and anything may be left
            self.models[self.dying_name] = self.dying
            for known in self.dying.alive.values():
                known.is_confirmed = False
        self.dying_name = ""
        for name in list(self.models):
            model = self.models[name]
            found = self._contents(name, recovered.get(name))
            for sequence, known in model.alive.items():
                if known.is_confirmed and not known.is_transient:
                    assert sequence in found, f"{name}: {sequence} was confirmed and is lost"
            possible = dict(model.gone_in_flight)
            possible.update(model.gone)
            possible.update({s: k.body for s, k in model.alive.items() if not k.is_transient})
            for sequence, queued in found.items():
                assert sequence in possible, f"{name}: {sequence} came back"
                _compare_bodies(queued, possible[sequence])
            is_there = {s: Known(q, possible[s], False, True) for s, q in found.items()}
            queue = recovered.get(name)
            next_sequence = 0 if queue is None else queue.next_sequence
            self.models[name] = QueueModel(is_there, next_sequence=next_sequence)
        for name, queue in recovered.items():
            assert name in self.models or queue.count == 0, f"{name} was deleted"

    def _contents(self, name: str, queue: RecoveredQueue | None) -> dict[int, QueuedMessage]:
        if queue is None:
            return {}
        came: list[list[QueuedMessage]] = []
        end = queue.journaled[0].sequence if queue.journaled else 1 << 40
        self.index.queue(name).read(0, end, 1 << 30, came.append)
        while not came:
            self.step()
        segmented = came[0]
        assert len(segmented) == sum(segment.count for segment in queue.segments)
        is_exact = not self.index.findings.checkpoint_problem
        if is_exact and all(q.store_file < 0 for q in segmented):  # else it may be a guess
            assert sum(s.body_bytes for s in queue.segments) == sum(q.size for q in segmented)
        for segment in queue.segments:
            inside = [q for q in segmented if segment.start <= q.sequence < segment.end]
            assert len(inside) == segment.count
        entries = segmented + queue.journaled
        sequences = [queued.sequence for queued in entries]
        assert sequences == sorted(set(sequences)), f"{name}: in order, each once"
        assert all(sequence < queue.next_sequence for sequence in sequences)
        self._load_bodies(entries)
        return {queued.sequence: queued for queued in entries}

    def _load_bodies(self, entries: list[QueuedMessage]) -> None:
        for queued in entries:
            if queued.store_file >= 0:
                location = (queued.store_file, queued.store_offset, queued.size)
                queued.message = self.result_of(self.bodies.read(*location))


def _compare_bodies(queued: QueuedMessage, body: bytes) -> None:
    assert queued.size == len(body)
    if queued.message is not None:
        assert queued.message.body == body
