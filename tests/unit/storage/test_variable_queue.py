"""The variable queue against a plain list: whatever is paged out and read back, order and counts
stay those of a queue that never left memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from warren.flow.credit import Credit
from warren.queues.boundary import PENDING, TAKEN
from warren.storage.index.states import JOURNALED, SEGMENTED
from warren.storage.queue.message_tiers import READ_FIRST_BYTES, is_bodiless
from warren.storage.queue.paged_messages import (
    CHOSEN_PER_STEP_MAX,
    LEAVING_BYTES_MAX,
    RETURNED_MAX,
)
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES, PLACE_BYTES
from warren.storage.queue.variable_queue import READ_AHEAD_BYTES, VariableQueue
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

TRANSIENT = PropertyBlock(b"\x00\x00")
PERSISTENT = PropertyBlock(b"\x10\x00\x02")
KEPT_BYTES = MESSAGE_OVERHEAD_BYTES + 3
"""Of a message of this test, and a little more."""
Read = tuple[int, int, int, Callable[[list[QueuedMessage]], None]]
BodyRead = tuple[list[QueuedMessage], Callable[[list[Message | None]], None]]


class IndexModel:
    """Keeps what it is given; reads finish when the test says so."""

    def __init__(self) -> None:
        self.on_segmented: Callable[[], None] | None = None
        self.on_stored: Callable[[], None] | None = None
        self.debtor: object = None
        self.live: dict[int, QueuedMessage] = {}
        self.messages: dict[int, Message] = {}
        self.reads: list[Read] = []
        self.body_reads: list[BodyRead] = []
        self.credit = Credit(1 << 30)
        self.delivered: list[tuple[int, int]] = []
        self.soon: list[Callable[[], None]] = []

    def publish(self, queued: QueuedMessage) -> None:
        queued.state = JOURNALED
        self.live[queued.sequence] = queued
        self.messages[queued.sequence] = queued.message

    def is_transient(self, queued: QueuedMessage) -> bool:
        return not self.messages[queued.sequence].properties.persistent

    def write_out(self, queued: QueuedMessage) -> None:
        self.publish(queued)

    def ack(self, run: list[QueuedMessage]) -> None:
        for queued in run:
            if queued.state:
                del self.live[queued.sequence]

    def ack_range(self, start: int, end: int) -> None:
        for sequence in [s for s in self.live if start <= s < end]:
            del self.live[sequence]

    def read(
        self,
        index: IndexModel,
        span: tuple[int, int],
        bytes_max: int,
        done: Callable[[list[QueuedMessage]], None],
    ) -> None:
        self.reads.append((*span, bytes_max, done))

    def read_bodies(
        self,
        index: IndexModel,
        entries: list[QueuedMessage],
        done: Callable[[list[Message | None]], None],
    ) -> None:
        assert all(queued.state == SEGMENTED for queued in entries)
        self.body_reads.append((entries, done))

    def note_delivered(self, index: IndexModel, runs: list[tuple[int, int]]) -> None:
        self.delivered += runs

    def mode_changed(self, queue: VariableQueue, is_lazy: bool) -> None:
        pass

    def scatter_now(self) -> None:
        pass

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def take_turn(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()

    def segment(self, boundary: int) -> None:
        for sequence, queued in self.live.items():
            if sequence < boundary:
                queued.state = SEGMENTED
        if self.on_segmented is not None:
            self.on_segmented()

    def finish_reads(self, limit: int) -> None:
        body_reads, self.body_reads = self.body_reads, []
        for entries, have in body_reads:
            have([self.messages[queued.sequence] for queued in entries])
        reads, self.reads = self.reads, []
        for start, end, _, done in reads:
            found = [s for s in sorted(self.live) if start <= s < end][:limit]
            done([self._copy(self.live[sequence]) for sequence in found])

    def _copy(self, queued: QueuedMessage) -> QueuedMessage:
        message = self.messages[queued.sequence]
        copy = QueuedMessage(message, queued.sequence, queued.expires_at_ms)
        copy.size = queued.size
        copy.state = SEGMENTED
        self.live[queued.sequence] = copy
        return copy


def message(number: int, properties: PropertyBlock = PERSISTENT) -> Message:
    return Message(b"\x00\x01q", properties, b"%d" % number)


def make(is_lazy: bool = False) -> tuple[VariableQueue, IndexModel]:
    index = IndexModel()
    queue = VariableQueue(lambda: index, True, index)
    queue.set_lazy(is_lazy)
    return queue, index


def size_in_memory(messages: Iterable[QueuedMessage]) -> int:
    return sum(
        PLACE_BYTES if is_bodiless(queued) else queued.size + MESSAGE_OVERHEAD_BYTES
        for queued in messages
    )


def drain(queue: VariableQueue, index: IndexModel) -> list[int]:
    taken = []
    while queue.length:
        queued = queue.fetch(False)
        if queued is None:
            index.finish_reads(3)
        else:
            taken.append(int(queued.message.body))
    return taken


def test_a_persistent_publish_with_a_publisher_waits_for_the_index() -> None:
    queue, _ = make()
    assert queue.publish(message(1), 0, object(), 7) == PENDING
    assert queue.publish(message(2), 0, None, 0) == TAKEN
    assert queue.publish(message(3, TRANSIENT), 0, object(), 8) == TAKEN


def test_transient_messages_of_an_ordinary_queue_never_reach_the_index() -> None:
    queue, index = make()
    queue.publish(message(1, TRANSIENT), 0, None, 0)
    assert index.live == {}


def test_a_lazy_queue_keeps_nothing_that_segments_have() -> None:
    queue, index = make(is_lazy=True)
    for number in range(10):
        queue.publish(message(number, TRANSIENT), 0, None, 0)
    index.segment(10)
    assert (len(queue.front), queue.delta_count, len(queue.back)) == (0, 10, 0)
    assert drain(queue, index) == list(range(10))


def test_messages_published_while_others_are_paged_out_come_after_them() -> None:
    queue, index = make()
    for number in range(6):
        queue.publish(message(number), 0, None, 0)
    queue.save_memory(2 * KEPT_BYTES)
    index.segment(6)
    queue.publish(message(6), 0, None, 0)
    assert (len(queue.front), queue.places, queue.delta_count, len(queue.back)) == (1, 1, 4, 1)
    assert drain(queue, index) == list(range(7))


def test_a_queue_that_only_looks_at_its_head_reads_little() -> None:
    """At a start all queues do; whoever goes on consuming gets more and more at a time."""
    queue, index = make(is_lazy=True)
    for number in range(3_000):
        queue.publish(message(number), 0, None, 0)
    index.segment(1 << 40)
    assert queue.head() is None
    assert [size for _, _, size, _ in index.reads] == [READ_FIRST_BYTES]
    sizes = []
    while queue.length and len(sizes) < 100:
        sizes += [size for _, _, size, _ in index.reads]
        index.finish_reads(10)
        while queue.fetch(ack_required=False) is not None:
            pass
    assert sizes == sorted(sizes)
    assert sizes[-1] == READ_AHEAD_BYTES


def test_what_was_lost_on_disk_is_not_waited_for() -> None:
    queue, index = make(is_lazy=True)
    for number in range(4):
        queue.publish(message(number), 0, None, 0)
    index.segment(4)
    del index.live[2], index.live[3]
    assert drain(queue, index) == [0, 1]
    assert queue.length == 0


def test_a_purge_forgets_what_is_being_read() -> None:
    queue, index = make(is_lazy=True)
    for number in range(4):
        queue.publish(message(number), 0, None, 0)
    index.segment(4)
    assert queue.fetch(True) is None
    assert queue.purge() == 4
    index.finish_reads(10)
    assert (queue.length, queue.ready_bytes, index.live) == (0, 0, {})


def test_what_was_there_before_the_start_is_acknowledged_to_the_index() -> None:
    queue, index = make()
    entry = QueuedMessage(message(5), 5, 0)
    index.publish(entry)
    queue.recover_recent([entry], 6)
    fetched = queue.fetch(True)
    assert fetched is entry
    queue.ack([entry])
    assert index.live == {}


def test_many_that_came_back_can_leave_memory_once_nobody_has_any() -> None:
    queue, index = make(is_lazy=True)
    count = RETURNED_MAX + 2
    for number in range(count):
        queue.publish(message(number), 0, None, 0)
    held = [queued for _ in range(count) if (queued := queue.fetch(True)) is not None]
    queue.requeue(held[1:])
    index.segment(count)
    assert len(queue.returned) == count - 1
    queue.requeue(held[:1])
    index.segment(count)
    while index.soon:
        index.take_turn()
    assert (queue.memory_bytes, queue.delta_count) == (0, count)
    assert index.delivered == [(0, count)]
    assert drain(queue, index) == list(range(count))


def test_a_large_queue_is_paged_out_in_steps() -> None:
    queue, index = make()
    for number in range(10 * CHOSEN_PER_STEP_MAX):
        queue.publish(message(number, TRANSIENT), 0, None, 0)
    queue.save_memory(0)
    assert len(queue.leaving) == CHOSEN_PER_STEP_MAX
    turns = 0
    while index.soon:
        index.take_turn()
        index.segment(queue.next_sequence)
        turns += 1
    assert turns >= 4
    assert (queue.memory_bytes, queue.delta_count) == (0, queue.length)


def test_what_waits_for_the_disk_is_bounded() -> None:
    queue, index = make()
    body_bytes = LEAVING_BYTES_MAX // 4
    large = Message(b"\x00\x01q", TRANSIENT, bytes(body_bytes))
    for _ in range(8):
        queue.publish(large, 0, None, 0)
    queue.save_memory(0)
    while index.soon:
        index.take_turn()
    assert len(queue.leaving) == 4
    assert len(index.live) == 4
    assert queue.waiting_bytes == queue.memory_bytes


def test_the_status_names_what_is_where() -> None:
    queue, index = make()
    for number in range(6):
        queue.publish(message(number, PERSISTENT if number % 2 else TRANSIENT), 0, None, 0)
    assert queue.status(0)["delta"] == ["delta", "undefined", 0, 0, "undefined"]
    assert (queue.status(0)["q4"], queue.status(0)["target_ram_count"]) == (6, "infinity")
    queue.save_memory(2 * KEPT_BYTES)
    index.segment(6)
    queue.publish(message(6), 0, None, 0)
    status = queue.status(0)
    assert status["delta"][:3] == ["delta", 2, 4]
    assert status["delta"][4] == 6
    assert (status["q1"], status["q3"], status["q4"]) == (1, 1, 1)
    assert (status["len"], status["next_seq_id"], status["target_ram_count"]) == (7, 7, 2)
    assert status["mode"] == "default"
    assert queue.figures().named()["messages_paged_out"] == 5
    assert queue.figures().named()["messages_ready_ram"] == 2


def test_rates_follow_what_happened_between_two_questions() -> None:
    queue, _ = make()
    assert queue.status(1_000)["avg_ingress_rate"] == 0.0
    for number in range(100):
        queue.publish(message(number), 0, None, 0)
    queue.fetch(True)
    status = queue.status(6_000)
    assert status["avg_ingress_rate"] == 10.0
    assert 0.0 < status["avg_egress_rate"] < 1.0
    assert status["avg_ack_egress_rate"] == 0.0


def test_publishers_to_a_queue_that_saves_memory_are_charged_until_the_disk_has_it() -> None:
    queue, index = make(is_lazy=True)
    queue.publish(message(1), 0, None, 0)
    assert index.credit.bytes_used > 0
    index.segment(1)
    assert index.credit.bytes_used == 0


class AgainstAList(RuleBasedStateMachine):
    """`ready` is what the queue holds, in order; `unacked` what was fetched and not settled."""

    @initialize(is_lazy=st.booleans())
    def begin(self, is_lazy: bool) -> None:
        self.queue, self.index = make(is_lazy)
        self.ready: list[int] = []
        self.unacked: list[QueuedMessage] = []
        self.persistent: set[int] = set()
        self.next = 0

    @rule(persistent=st.booleans())
    def publish(self, persistent: bool) -> None:
        self.queue.publish(message(self.next, PERSISTENT if persistent else TRANSIENT), 0, None, 0)
        if persistent:
            self.persistent.add(self.next)
        self.ready.append(self.next)
        self.next += 1

    @rule(ack_required=st.booleans())
    def fetch(self, ack_required: bool) -> None:
        queued = self.queue.fetch(ack_required)
        if queued is None:
            assert not self.ready or self.queue.is_loading or self.queue.is_filling
            return
        assert int(queued.message.body) == self.ready.pop(0)
        if ack_required:
            self.unacked.append(queued)

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        queued = self.unacked.pop(data.draw(st.integers(0, len(self.unacked) - 1)))
        if data.draw(st.booleans()):
            self.queue.ack([queued])
        else:
            self.queue.requeue([queued])
            self.ready = sorted([*self.ready, int(queued.message.body)])

    @rule(limit=st.integers(1, 5))
    def read(self, limit: int) -> None:
        self.index.finish_reads(limit)

    @rule(share=st.floats(0, 1))
    def segment(self, share: float) -> None:
        """What the index has of the older messages gets into segments."""
        self.index.segment(int(self.next * share))

    @rule(keep=st.integers(0, 4))
    def save_memory(self, keep: int) -> None:
        self.queue.save_memory(keep * KEPT_BYTES)

    @rule()
    def use_memory(self) -> None:
        self.queue.use_memory()

    @rule()
    def take_turn(self) -> None:
        self.index.take_turn()

    @rule(lazy=st.booleans())
    def switch_mode(self, lazy: bool) -> None:
        self.queue.set_lazy(lazy)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready = []

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "ready"):
            assert self.queue.length == len(self.ready)
            assert self.queue.ready_bytes == sum(len(b"%d" % number) for number in self.ready)
            assert self.queue.unacked_count == len(self.unacked)
            queue = self.queue
            held = [*self.ready, *(int(queued.message.body) for queued in self.unacked)]
            figures = queue.figures().named()
            assert figures["messages"] == len(held)
            assert figures["message_bytes"] == sum(len(b"%d" % number) for number in held)
            kept = self.persistent.intersection(held)
            assert figures["messages_persistent"] == len(kept)
            assert figures["message_bytes_persistent"] == sum(len(b"%d" % n) for n in kept)
            assert sum(queue.status(0)[name] for name in ("q1", "q2", "q3", "q4")) + (
                queue.status(0)["delta"][2]
            ) == len(self.ready)
            assert queue.memory_bytes == size_in_memory(queue.in_memory())
            assert queue.leaving_bytes == size_in_memory(queue.leaving)
            assert queue.back_bytes == size_in_memory(queue.back)
            assert queue.given_count <= len(queue.back)
            assert queue.charged_bytes == (queue.back_bytes if queue.keep_bytes >= 0 else 0)
            assert self.index.credit.bytes_used == queue.charged_bytes
            assert not (
                queue.back and queue.keep_bytes < 0 and not queue.delta_count and queue.leaving
            )


TestAgainstAList = AgainstAList.TestCase
TestAgainstAList.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
