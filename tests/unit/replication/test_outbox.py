"""When a master has to tell its mirrors something, and what it tells at once."""

from __future__ import annotations

from replica_world import message
from warren.replication.classic.instructions import Changes, decode
from warren.replication.classic.outbox import (
    LATER,
    MANY_MESSAGES,
    MANY_REMOVALS,
    NOW,
    SOON,
    Outbox,
)


def test_a_message_is_told_soon() -> None:
    due: list[int] = []
    outbox = Outbox(due.append)
    outbox.publish(message(1), 0, 0, 0)
    outbox.publish(message(2), 0, 1, 0)
    assert due == [SOON]


def test_many_messages_are_told_at_once() -> None:
    due: list[int] = []
    outbox = Outbox(due.append)
    for number in range(MANY_MESSAGES + 1):
        outbox.publish(message(number), 0, number, 0)
    assert due == [SOON, NOW]


def test_many_removals_wait_no_longer_than_messages() -> None:
    due: list[int] = []
    outbox = Outbox(due.append)
    for number in range(MANY_REMOVALS + 1):
        outbox.remove(0, number, 10)
    assert due == [LATER, SOON]


def test_what_is_gone_waits_a_little_for_something_to_go_with() -> None:
    due: list[int] = []
    outbox = Outbox(due.append)
    outbox.remove(0, 7, 10)
    outbox.remove(0, 8, 10)
    assert due == [LATER]
    outbox.publish(message(1), 0, 9, 0)
    assert due == [LATER, SOON]
    _, instruction, messages = decode(outbox.take(1))
    assert isinstance(instruction, Changes)
    assert instruction.removed == ((0, 7, 2, 20),)
    assert [each.body for each in messages] == [b"1"]


def test_after_it_has_been_emptied_all_begins_anew() -> None:
    due: list[int] = []
    outbox = Outbox(due.append)
    outbox.publish(message(1), 0, 0, 0)
    outbox.take(1)
    assert outbox.is_empty
    assert outbox.size == 0
    outbox.remove(0, 0, 1)
    assert due == [SOON, LATER]
