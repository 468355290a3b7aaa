"""Messages that are not in memory when the queue looks for them: expired ones, and basic.get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from manual_clock import ManualClock
from warren.model.records import QueueRecord
from warren.queues.boundary import Fetched
from warren.queues.delivery import TurnClock
from warren.queues.host import DeathReason
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, PropertyBlock, QueuedMessage

WAIT_S = 5.0


class SlowBacking(MemoryBacking):
    """Its messages can be counted, but not had, while `is_reading`."""

    is_reading = False

    def head(self) -> QueuedMessage | None:
        return None if self.is_reading else super().head()

    def fetch(self, ack_required: bool) -> QueuedMessage | None:
        return None if self.is_reading else super().fetch(ack_required)


class Host:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turn_clock = TurnClock()

    def dead_letter(self, queue: Queue, messages: list[Message], reason: DeathReason) -> None:
        raise AssertionError("the queue has no dead-letter exchange")

    def unused(self, queue: Queue) -> None:
        raise AssertionError("the queue is not auto-delete")

    def expired(self, queue: Queue) -> None:
        raise AssertionError("the queue does not expire")


def test_a_message_that_expired_while_it_was_being_read_is_not_served() -> None:
    host, backing = Host(), SlowBacking()
    queue = Queue(QueueRecord("/", "q"), QueueSettings(message_ttl_ms=100), backing, host)
    message = Message(b"\x00\x01q", PropertyBlock(b"\x00\x00"), b"old")
    queue.publish(message, None, 0)
    backing.is_reading = True
    host.clock.advance(1_000)
    assert queue.get() is None
    backing.is_reading = False
    queue.loaded()
    assert queue.get() is None
    assert queue.message_count == 0


async def until(register: Callable[[Callable[[], None]], None]) -> None:
    told = asyncio.Event()
    register(told.set)
    await told.wait()


def asked_while_reading() -> tuple[Queue, SlowBacking, Coroutine[Any, Any, Fetched]]:
    backing = SlowBacking()
    queue = Queue(QueueRecord("/", "q"), QueueSettings(), backing, Host())
    queue.publish(Message(b"\x00\x01q", PropertyBlock(b"\x00\x00"), b"body"), None, 0)
    backing.is_reading = True
    answer = queue.fetch(until)
    assert isinstance(answer, Coroutine)
    return queue, backing, answer


def come(queue: Queue, backing: SlowBacking) -> None:
    backing.is_reading = False
    queue.loaded()


async def test_a_message_that_comes_while_it_is_waited_for() -> None:
    queue, backing, answer = asked_while_reading()
    asyncio.get_running_loop().call_later(0.01, come, queue, backing)
    fetched = await asyncio.wait_for(answer, WAIT_S)
    assert fetched.queued is not None
    assert fetched.messages_left == 0


async def test_a_message_that_comes_before_the_waiting_begins() -> None:
    """A task begins a turn after it was made, and the disk may answer in that turn."""
    queue, backing, answer = asked_while_reading()
    come(queue, backing)
    fetched = await asyncio.wait_for(answer, WAIT_S)
    assert fetched.queued is not None
