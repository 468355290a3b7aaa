"""A message store does whatever a model does, through crashes, stops and failing disks.

The steps of housekeeping and compaction, and the moments between taking a batch and its end, are
steps of the machine, so they come in any order with publishes and acknowledgements.
"""

from __future__ import annotations

import errno
import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from faulty_disk import FaultyDisk
from store_world import FILE_BYTES, StoreWorld

seeds = st.integers(0, 2**32)
sizes = st.one_of(st.integers(0, 300), st.integers(300, FILE_BYTES), st.just(2 * FILE_BYTES))


class StoreMachine(RuleBasedStateMachine):
    world: StoreWorld
    is_in_flight = False
    checkpoint: bytes | None = None

    @initialize(seed=seeds)
    def begin(self, seed: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="store-"))
        self.disk = FaultyDisk(seed)
        self.world = StoreWorld(self.directory / "store", self.disk).open()

    @rule(size=sizes, queues=st.integers(1, 4), seed=seeds)
    def publish(self, size: int, queues: int, seed: int) -> None:
        self.world.publish(random.Random(seed).randbytes(size), queues)

    @rule(messages=st.integers(4, 12), queues=st.integers(1, 3), seed=seeds)
    def publish_much(self, messages: int, queues: int, seed: int) -> None:
        """Enough for a file or more."""
        for _ in range(messages):
            self.publish(FILE_BYTES // 4, queues, seed)

    @rule(share=st.sampled_from([0.3, 0.7, 0.9, 1]), seed=seeds)
    def ack_some(self, share: float, seed: int) -> None:
        dice = random.Random(seed)
        for name in [*self.world.entries, *self.world.waiting]:
            if dice.random() < share:
                self.world.ack(name)

    @precondition(lambda self: not self.is_in_flight)
    @rule(is_checkpoint=st.booleans())
    def take(self, is_checkpoint: bool) -> None:
        try:
            self.world.take()
        except OSError:
            return
        self.is_in_flight = True
        self.checkpoint = self.world.store.checkpoint_state() if is_checkpoint else None
        self.checkpoint_entries = dict(self.world.entries)

    @precondition(lambda self: self.is_in_flight)
    @rule()
    def finish(self) -> None:
        self.is_in_flight = False
        try:
            self.world.finish()
        except OSError:
            return
        if self.checkpoint is not None:
            self.world.journal.checkpoint(self.checkpoint, self.checkpoint_entries)

    @rule(seed=seeds, steps=st.integers(1, 20))
    def step(self, seed: int, steps: int) -> None:
        dice = random.Random(seed)
        for _ in range(steps):
            self.world.workers.step(dice)

    @rule()
    def settle(self) -> None:
        self.world.settle()

    @rule(
        operation=st.sampled_from(["sync", "append", "open", "unlink", "truncate"]),
        code=st.sampled_from([errno.EIO, errno.ENOSPC]),
        room=st.one_of(st.none(), st.integers(0, 4 * FILE_BYTES)),
        append_bytes_max=st.one_of(st.none(), st.integers(1, 5_000)),
    )
    def break_the_disk(
        self, operation: str, code: int, room: int | None, append_bytes_max: int | None
    ) -> None:
        self.disk.fail(operation, code)
        self.disk.room_bytes = room
        self.disk.append_bytes_max = append_bytes_max

    @rule(seed=seeds)
    def crash(self, seed: int) -> None:
        self.world.crash(random.Random(seed))
        self.reopen(seed)

    @rule(seed=seeds, changes=st.integers(0, 12))
    def crash_twice(self, seed: int, changes: int) -> None:
        """The second time while the store is being opened, or soon after."""
        self.world.crash(random.Random(seed))
        self.disk = FaultyDisk(seed)
        self.disk.crash_before(changes)
        try:
            self.world = self.world.reopened(self.disk)
            self.world.settle()
        except OSError:
            assert self.disk.is_crashed
        self.world.disk = self.disk
        self.world.crash(random.Random(seed))
        self.reopen(seed)

    @precondition(lambda self: not self.is_in_flight)
    @rule(seed=seeds)
    def stop_and_start(self, seed: int) -> None:
        self.heal()
        self.world.close()
        self.reopen(seed)

    @rule()
    def read_all(self) -> None:
        self.heal()
        self.world.check()

    def reopen(self, seed: int) -> None:
        self.is_in_flight = False
        self.disk = FaultyDisk(seed)
        self.world = self.world.reopened(self.disk)

    def heal(self) -> None:
        self.disk._faults.clear()
        self.disk.room_bytes = None
        self.disk.append_bytes_max = None

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.heal()
            if self.is_in_flight:
                self.finish()
            self.stop_and_start(0)
            self.world.check_that_nothing_stays()
            self.world.close()
        finally:
            self.world.workers.abandon()
            shutil.rmtree(self.directory)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
