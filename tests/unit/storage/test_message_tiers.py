"""Tiers of a queue under random pressure: each message is in one of them, and counted once.

The index and the message store are played (played_disk.py). A failure prints the steps that lead to
it.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from played_disk import LARGE_BYTES, PERSISTENT, TRANSIENT, PlayedDisk
from warren.storage.index.states import SEGMENTED, STORED
from warren.storage.queue.message_tiers import READ_FIRST_BYTES, is_bodiless
from warren.storage.queue.paging_host import MESSAGE_OVERHEAD_BYTES, PLACE_BYTES
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message, QueuedMessage


def make() -> tuple[VariableQueue, PlayedDisk]:
    disk = PlayedDisk()
    return VariableQueue(lambda: disk, True, disk), disk


def message(number: int, *, large: bool, persistent: bool = True) -> Message:
    body = b"%d" % number
    properties = PERSISTENT if persistent else TRANSIENT
    return Message(b"\x00\x01q", properties, body.ljust(LARGE_BYTES) if large else body)


def tiers(queue: VariableQueue) -> tuple[int, int, int, int]:
    status = queue.status(0)
    return status["alpha"], status["beta"], status["gamma"], status["delta"][2]


def fill(queue: VariableQueue, count: int, *, large: bool, persistent: bool = True) -> None:
    for number in range(count):
        queue.publish(message(number, large=large, persistent=persistent), 0, None, 0)


def drain(queue: VariableQueue, disk: PlayedDisk) -> list[int]:
    taken = []
    while queue.length:
        queued = queue.fetch(False)
        if queued is None:
            disk.finish_reads()
        else:
            taken.append(int(queued.message.body))
    return taken


ROOM = 100 * PLACE_BYTES


def test_large_persistent_messages_become_gamma_when_the_store_has_their_bodies() -> None:
    queue, disk = make()
    fill(queue, 20, large=True)
    queue.save_memory(ROOM + 2 * LARGE_BYTES)
    assert tiers(queue) == (20, 0, 0, 0)
    disk.write()
    disk.take_turn()
    alpha, beta, gamma, delta = tiers(queue)
    assert (beta, gamma, delta) == (0, 20 - alpha, 0)
    assert 1 <= alpha <= 5
    assert queue.memory_bytes <= ROOM + 2 * LARGE_BYTES


def test_large_transient_messages_become_beta_and_have_no_entry_in_the_index() -> None:
    queue, disk = make()
    fill(queue, 20, large=True, persistent=False)
    queue.save_memory(ROOM)
    disk.settle(queue)
    assert tiers(queue) == (0, 20, 0, 0) or tiers(queue)[0] <= 3
    assert tiers(queue)[2:] == (0, 0)
    assert not disk.entries
    assert drain(queue, disk) == list(range(20))


@pytest.mark.parametrize("persistent", [True, False], ids=["persistent", "transient"])
def test_small_messages_become_gamma_when_segments_have_them(persistent: bool) -> None:
    queue, disk = make()
    fill(queue, 40, large=False, persistent=persistent)
    queue.save_memory(ROOM // 2)
    disk.write()
    disk.take_turn()
    assert tiers(queue) == (40, 0, 0, 0), "the journal is not read"
    disk.settle(queue)
    alpha, beta, gamma, delta = tiers(queue)
    assert (beta, delta, alpha + gamma) == (0, 0, 40)
    assert gamma >= 15
    assert queue.memory_bytes <= ROOM // 2
    assert queue.figures().persistent == (40 if persistent else 0)
    assert drain(queue, disk) == list(range(40))
    assert disk.bodies_read == gamma


def test_small_messages_are_gamma_as_long_as_there_is_room_for_places_and_then_delta() -> None:
    queue, disk = make()
    fill(queue, 400, large=False)
    queue.save_memory(ROOM)
    disk.settle(queue)
    _, beta, gamma, delta = tiers(queue)
    assert (beta, gamma) == (0, ROOM // 2 // PLACE_BYTES)
    assert delta >= 400 - ROOM // PLACE_BYTES
    assert queue.memory_bytes <= ROOM
    assert drain(queue, disk) == list(range(400))


def test_small_messages_of_a_queue_without_room_for_places_go_straight_to_delta() -> None:
    queue, disk = make()
    fill(queue, 100, large=False)
    queue.set_lazy(True)
    for number in range(100, 120):
        queue.publish(message(number, large=False), 0, None, 0)
    disk.settle(queue)
    assert tiers(queue) == (0, 0, 0, 120)
    assert drain(queue, disk) == list(range(120))
    assert disk.bodies_read == 0, "what is delta comes with its body"


def test_a_small_gamma_keeps_order_expiry_and_mark_and_gets_its_own_body_back() -> None:
    queue, disk = make()
    for number in range(30):
        queue.publish(message(number, large=number % 3 == 0), 1_000 + number, None, 0)
    first = queue.fetch(True)
    assert first is not None
    queue.requeue([first])
    first.redelivered = True
    queue.save_memory(8 * MESSAGE_OVERHEAD_BYTES + 30 * PLACE_BYTES)
    disk.settle(queue)
    places = list(queue.q3)
    assert len(places) > 10
    assert {queued.size < LARGE_BYTES for queued in places} == {True, False}
    assert all(queued.expires_at_ms == 1_000 + queued.sequence for queued in places)
    taken: list[tuple[int, int]] = []
    while queue.length:
        queued = queue.fetch(False)
        if queued is None:
            disk.finish_reads()
            continue
        taken.append((int(queued.message.body), queued.expires_at_ms - 1_000))
        assert queued.redelivered is (queued is first)
    assert taken == [(number, number) for number in range(30)]


def test_small_messages_are_read_back_some_at_a_time_however_small_they_are() -> None:
    queue, disk = make()
    empty = Message(b"\x00\x01q", PERSISTENT, b"")
    count = 8 * READ_FIRST_BYTES // MESSAGE_OVERHEAD_BYTES
    for _ in range(count):
        queue.publish(empty, 0, None, 0)
    queue.save_memory(count * PLACE_BYTES)
    disk.settle(queue)
    while queue.fetch(False) is not None:
        pass
    waiting = queue.status(0)["gamma"]
    assert waiting > READ_FIRST_BYTES // MESSAGE_OVERHEAD_BYTES
    disk.finish_reads()
    brought = waiting - queue.status(0)["gamma"]
    assert 0 < brought <= READ_FIRST_BYTES // MESSAGE_OVERHEAD_BYTES + 1


def test_places_go_to_delta_when_they_are_too_many() -> None:
    queue, disk = make()
    fill(queue, 300, large=True)
    queue.save_memory(100 * PLACE_BYTES)
    disk.settle(queue)
    _, beta, gamma, delta = tiers(queue)
    assert beta == 0
    assert gamma <= 50
    assert delta >= 240
    assert drain(queue, disk) == list(range(300))


def test_betas_are_given_entries_when_their_places_have_to_go() -> None:
    queue, disk = make()
    fill(queue, 100, large=True, persistent=False)
    queue.save_memory(0)
    disk.settle(queue)
    assert tiers(queue) == (0, 0, 0, 100)
    assert drain(queue, disk) == list(range(100))


@pytest.mark.parametrize("large", [True, False], ids=["large", "small"])
def test_a_queue_that_is_lazy_no_more_has_everything_read_back(large: bool) -> None:
    queue, disk = make()
    queue.set_lazy(True)
    fill(queue, 50, large=large)
    disk.settle(queue)
    assert tiers(queue)[0] == 0
    queue.set_lazy(False)
    batches = 0
    while disk.pending:
        disk.finish_reads()
        batches += 1
    assert tiers(queue) == (50, 0, 0, 0)
    assert batches > 1
    queue.save_memory(0)
    disk.settle(queue)
    assert tiers(queue)[0] == 0, "what was recalled may leave again"
    assert drain(queue, disk) == list(range(50))


def test_reading_back_ends_when_memory_is_short() -> None:
    queue, disk = make()
    queue.set_lazy(True)
    fill(queue, 50, large=False)
    disk.settle(queue)
    queue.set_lazy(False)
    disk.finish_reads()
    queue.save_memory(0)
    disk.finish_reads()
    disk.settle(queue)
    assert (disk.pending, tiers(queue)) == ([], (0, 0, 0, 50))


def test_messages_that_come_after_a_delta_wait_in_q2_and_q1() -> None:
    queue, disk = make()
    fill(queue, 10, large=False)
    queue.save_memory(ROOM)
    queue.save_memory(0)
    disk.settle(queue)
    queue.save_memory(ROOM)
    for number in range(10, 20):
        queue.publish(message(number, large=True), 0, None, 0)
    disk.write()
    disk.take_turn()
    queue.publish(message(20, large=True), 0, None, 0)
    status = queue.status(0)
    assert [status[name] for name in ("q1", "q2", "q3", "q4")] == [1, 10, 0, 0]
    assert status["delta"][2] == 10
    assert drain(queue, disk) == list(range(21))


def test_places_follow_a_delta_whose_last_messages_were_acknowledged_before_a_crash() -> None:
    queue, disk = make()
    for sequence in range(3):
        kept = QueuedMessage(message(sequence, large=False), sequence, 0)
        kept.size, kept.state = len(kept.message.body), SEGMENTED
        disk.entries[sequence], disk.embedded[sequence] = kept, kept.message
    queue.recover(0, 8, 3, 3)
    queue.recover_recent([], 8)
    queue.save_memory(ROOM)
    for number in range(3, 6):
        queue.publish(message(number, large=True), 0, None, 0)
    disk.write()
    disk.take_turn()
    assert queue.status(0)["q2"] == 3
    assert drain(queue, disk) == list(range(6))


def test_each_body_is_read_once() -> None:
    queue, disk = make()
    fill(queue, 50, large=True)
    queue.save_memory(ROOM)
    disk.settle(queue)
    gone = queue.status(0)["gamma"]
    for _ in range(60):
        disk.settle(queue)
        if queue.fetch(False) is None:
            disk.finish_reads()
    assert drain(queue, disk)[-1:] in ([49], [])
    assert disk.bodies_read == gone


@pytest.mark.parametrize("large", [True, False], ids=["large", "small"])
def test_what_clients_have_loses_its_body_and_is_loaded_when_it_comes_back(large: bool) -> None:
    queue, disk = make()
    fill(queue, 4, large=large)
    disk.write()
    disk.segment(4)
    held = [queue.fetch(True) for _ in range(4)]
    run = [queued for queued in held if queued is not None]
    queue.drop_unacked(run)
    figures = queue.figures().named()
    assert (figures["messages_unacknowledged"], figures["messages_unacknowledged_ram"]) == (4, 0)
    assert figures["message_bytes_ram"] == 0
    queue.ack(run[:1])
    queue.requeue(run[1:])
    assert tiers(queue) == (0, 0, 3, 0)
    assert drain(queue, disk) == [1, 2, 3]


def test_transient_messages_that_clients_have_are_written_out_first() -> None:
    queue, disk = make()
    fill(queue, 2, large=True, persistent=False)
    run = [queued for queued in (queue.fetch(True), queue.fetch(True)) if queued is not None]
    queue.drop_unacked(run)
    assert queue.figures().unacked_paged_out == 0
    disk.write()
    queue.drop_unacked(run)
    assert queue.figures().unacked_paged_out == 2
    loaded: list[QueuedMessage] = []
    queue.load_unacked(run, loaded.extend)
    disk.finish_reads()
    assert [int(queued.message.body) for queued in loaded] == [0, 1]
    queue.ack(run)
    assert (disk.bodies, queue.figures().unacked_paged_out) == ({}, 0)


class UnderPressure(RuleBasedStateMachine):
    """`ready` is what the queue holds, in order; `unacked` what was fetched and not settled."""

    @initialize(is_lazy=st.booleans())
    def begin(self, is_lazy: bool) -> None:
        self.queue, self.disk = make()
        self.queue.set_lazy(is_lazy)
        self.ready: list[int] = []
        self.unacked: list[tuple[int, QueuedMessage]] = []
        self.sizes: dict[int, int] = {}
        self.persistent: set[int] = set()

    @rule(large=st.booleans(), persistent=st.booleans(), count=st.integers(1, 4))
    def publish(self, large: bool, persistent: bool, count: int) -> None:
        for _ in range(count):
            number = self.queue.next_sequence
            made = message(number, large=large, persistent=persistent)
            self.sizes[number] = len(made.body)
            if persistent:
                self.persistent.add(number)
            self.queue.publish(made, 1_000 + number, None, 0)
            self.ready.append(number)

    @rule(ack_required=st.booleans(), count=st.integers(1, 4))
    def fetch(self, ack_required: bool, count: int) -> None:
        for _ in range(count):
            queued = self.queue.fetch(ack_required)
            if queued is None:
                assert not self.ready or self.disk.pending, "somebody has to be reading"
                return
            number = self.ready.pop(0)
            assert int(queued.message.body) == number
            assert queued.expires_at_ms == 1_000 + number
            if ack_required:
                self.unacked.append((number, queued))

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.unacked) - 1))
        number, queued = self.unacked.pop(place)
        if data.draw(st.booleans()):
            self.queue.ack([queued])
        else:
            self.queue.requeue([queued])
            self.ready = sorted([*self.ready, number])

    @rule()
    def drop_unacked(self) -> None:
        self.queue.drop_unacked([queued for _, queued in self.unacked])

    @rule()
    def read(self) -> None:
        self.disk.finish_reads()

    @rule()
    def write(self) -> None:
        self.disk.write()

    @rule(share=st.floats(0, 1))
    def segment(self, share: float) -> None:
        self.disk.segment(int(self.queue.next_sequence * share))

    @rule(places=st.integers(0, 20), bodies=st.integers(0, 3))
    def save_memory(self, places: int, bodies: int) -> None:
        self.queue.save_memory(places * PLACE_BYTES + bodies * LARGE_BYTES)

    @rule()
    def use_memory(self) -> None:
        self.queue.use_memory()

    @rule()
    def take_turn(self) -> None:
        self.disk.take_turn()

    @rule(lazy=st.booleans())
    def switch_mode(self, lazy: bool) -> None:
        self.queue.set_lazy(lazy)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready = []

    @invariant()
    def every_message_is_in_one_tier(self) -> None:
        if not hasattr(self, "ready"):
            return
        queue = self.queue
        queue.check()
        status, figures = queue.status(0), queue.figures().named()
        in_memory = queue.in_memory()
        away = [queued for queued in in_memory if is_bodiless(queued)]
        alpha, beta, gamma = (status[name] for name in ("alpha", "beta", "gamma"))
        assert alpha == len(in_memory) - len(away)
        assert beta == len([queued for queued in away if queued.state == STORED])
        assert alpha + beta + gamma + queue.delta_count == len(self.ready) == queue.length
        parts = sum(status[name] for name in ("q1", "q2", "q3", "q4")) + status["delta"][2]
        assert parts == len(self.ready)
        assert figures["messages_ready_ram"] == alpha
        held = [queued for _, queued in self.unacked if not is_bodiless(queued)]
        assert figures["messages_unacknowledged_ram"] == len(held)
        numbers = [*self.ready, *(number for number, _ in self.unacked)]
        assert figures["message_bytes"] == sum(self.sizes[number] for number in numbers)
        bodies = sum(len(q.message.body) for q in (*in_memory, *held) if not is_bodiless(q))
        assert figures["message_bytes_ram"] == bodies
        overhead = alpha * MESSAGE_OVERHEAD_BYTES + len(away) * PLACE_BYTES
        ready_bodies = bodies - sum(queued.size for queued in held)
        assert queue.memory_bytes == ready_bodies + overhead
        assert self.disk.credit.bytes_used == queue.charged_bytes
        persistent = len([number for number in numbers if number in self.persistent])
        assert figures["messages_persistent"] == persistent
        assert all(queued.state == SEGMENTED for queued in away if queued.size < LARGE_BYTES)


TestUnderPressure = UnderPressure.TestCase
TestUnderPressure.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, print_blob=True
)
