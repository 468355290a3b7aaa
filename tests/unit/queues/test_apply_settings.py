"""A policy that changes under a running queue: what takes effect, and when."""

from __future__ import annotations

import pytest

from manual_clock import ManualClock
from warren.model.records import QueueRecord
from warren.queues.delivery import TurnClock
from warren.queues.host import DeathReason
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import DROPPED_PER_TURN_MAX, Queue
from warren.queues.quorum_queue import QuorumQueue
from warren.queues.settings import Overflow, QueueSettings, QueueType, settings_of
from warren.wire.codec import Message, PropertyBlock

NO_SETTINGS = QueueSettings()


class Host:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turn_clock = TurnClock()
        self.dead: list[tuple[bytes, DeathReason]] = []
        self.expired_at_ms: list[int] = []

    def dead_letter(self, queue: Queue, messages: list[Message], reason: DeathReason) -> None:
        self.dead.extend((message.body, reason) for message in messages)

    def unused(self, queue: Queue) -> None:
        raise AssertionError("the queue is not auto-delete")

    def expired(self, queue: Queue) -> None:
        self.expired_at_ms.append(self.clock.now_ms())


class ModeBacking(MemoryBacking):
    def __init__(self) -> None:
        super().__init__()
        self.modes: list[bool] = []

    def set_lazy(self, lazy: bool) -> None:
        self.modes.append(lazy)


def make(settings: QueueSettings = NO_SETTINGS) -> tuple[Queue, Host]:
    host = Host()
    kind = QuorumQueue if settings.queue_type is QueueType.QUORUM else Queue
    return kind(QueueRecord("/", "q"), settings, MemoryBacking(), host), host


def publish(queue: Queue, *bodies: bytes) -> list[int]:
    return [
        queue.publish(Message(b"\0\x01q", PropertyBlock(b"\0\0"), body), None, 0) for body in bodies
    ]


def bodies(queue: Queue) -> list[bytes]:
    found = []
    while (queued := queue.get()) is not None:
        found.append(queued.message.body)
    return found


def test_a_new_length_limit_trims_at_once_and_dead_letters_the_oldest() -> None:
    queue, host = make()
    publish(queue, b"1", b"2", b"3")
    queue.apply_settings(QueueSettings(max_length=1, dead_letter_exchange="dlx"))
    assert host.dead == [(b"1", DeathReason.MAXLEN), (b"2", DeathReason.MAXLEN)]
    assert bodies(queue) == [b"3"]


def test_a_new_byte_limit_trims_at_once() -> None:
    queue, _ = make()
    publish(queue, b"1234", b"567", b"8")
    queue.apply_settings(QueueSettings(max_length_bytes=4))
    assert bodies(queue) == [b"567", b"8"]


@pytest.mark.parametrize("overflow", [Overflow.REJECT_PUBLISH, Overflow.REJECT_PUBLISH_DLX])
def test_a_limit_that_rejects_takes_nothing_back(overflow: Overflow) -> None:
    queue, _ = make()
    publish(queue, b"1", b"2")
    queue.apply_settings(QueueSettings(max_length=1, overflow=overflow))
    assert queue.message_count == 2
    publish(queue, b"3")
    assert bodies(queue) == [b"1", b"2"]


def test_a_limit_far_below_the_length_is_reached_over_some_turns() -> None:
    queue, host = make()
    publish(queue, *[b"m"] * (DROPPED_PER_TURN_MAX + 10))
    queue.apply_settings(QueueSettings(max_length=2))
    assert queue.message_count == 10
    host.clock.advance(1)
    assert queue.message_count == 2


def test_a_limit_that_is_gone_limits_nothing() -> None:
    queue, _ = make(QueueSettings(max_length=1))
    queue.apply_settings(NO_SETTINGS)
    publish(queue, b"1", b"2")
    assert bodies(queue) == [b"1", b"2"]


def test_a_time_to_live_is_for_messages_published_afterwards() -> None:
    queue, host = make()
    publish(queue, b"before")
    queue.apply_settings(QueueSettings(message_ttl_ms=100, dead_letter_exchange="dlx"))
    host.clock.advance(1_000)
    assert bodies(queue) == [b"before"]
    publish(queue, b"after")
    host.clock.advance(1_000)
    assert host.dead == [(b"after", DeathReason.EXPIRED)]


def test_a_time_to_live_that_is_gone_still_holds_for_those_that_had_it() -> None:
    queue, host = make(QueueSettings(message_ttl_ms=100))
    publish(queue, b"before")
    queue.apply_settings(NO_SETTINGS)
    publish(queue, b"after")
    host.clock.advance(1_000)
    assert bodies(queue) == [b"after"]


def test_expires_counts_from_the_change() -> None:
    queue, host = make(QueueSettings(expires_ms=1_000))
    began_ms = host.clock.now_ms()
    host.clock.advance(900)
    queue.apply_settings(QueueSettings(expires_ms=500))
    host.clock.advance(5_000)
    assert host.expired_at_ms == [began_ms + 1_400]


def test_expires_can_come_and_go() -> None:
    queue, host = make()
    queue.apply_settings(QueueSettings(expires_ms=1_000))
    queue.apply_settings(NO_SETTINGS)
    host.clock.advance(5_000)
    assert host.expired_at_ms == []
    queue.apply_settings(QueueSettings(expires_ms=1_000))
    host.clock.advance(1_000)
    assert len(host.expired_at_ms) == 1


def test_expires_that_did_not_change_is_not_put_off() -> None:
    queue, host = make(QueueSettings(expires_ms=1_000))
    host.clock.advance(900)
    queue.apply_settings(QueueSettings(expires_ms=1_000, max_length=5))
    host.clock.advance(100)
    assert len(host.expired_at_ms) == 1


def test_a_new_delivery_limit_holds_for_what_comes_back_next() -> None:
    queue, host = make(QueueSettings(queue_type=QueueType.QUORUM))
    publish(queue, b"poison")
    for _ in range(3):
        queued = queue.get()
        assert queued is not None
        queue.requeued([queued])
    queue.apply_settings(
        QueueSettings(queue_type=QueueType.QUORUM, delivery_limit=2, dead_letter_exchange="dlx")
    )
    queued = queue.get()
    assert queued is not None
    queue.requeued([queued])
    assert host.dead == [(b"poison", DeathReason.DELIVERY_LIMIT)]


def test_a_mode_that_nobody_names_any_more_stays() -> None:
    host, backing = Host(), ModeBacking()
    record = QueueRecord("/", "q")
    queue = Queue(record, settings_of(record), backing, host)
    for policy in ({"queue-mode": "lazy"}, {}, {"queue-mode": "default"}):
        queue.apply_settings(settings_of(record, policy))
    assert backing.modes == [True, False]


def test_nothing_takes_effect_on_a_deleted_queue() -> None:
    queue, host = make()
    queue.delete()
    queue.apply_settings(QueueSettings(expires_ms=10))
    host.clock.advance(1_000)
    assert host.expired_at_ms == []
