"""Who is told to move messages to disk, and how many."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from warren.flow.paging import QUEUE_BYTES_MIN, orders

MIB = 1_048_576


@dataclass
class Queue:
    memory_bytes: int
    waiting_bytes: int = 0


def test_queues_give_in_proportion_to_what_they_have() -> None:
    large, small = Queue(30 * MIB), Queue(10 * MIB)
    wanted = orders([small, large], 10 * MIB)
    assert wanted.queues == [large, small]
    assert wanted.kept_share == pytest.approx(0.75)


def test_what_is_on_its_way_to_the_disk_is_not_asked_for_twice() -> None:
    queue = Queue(30 * MIB, waiting_bytes=10 * MIB)
    assert orders([queue], 10 * MIB).queues == []
    assert orders([queue], 15 * MIB).kept_share == pytest.approx(0.75)


def test_queues_with_little_are_left_alone_while_others_have_enough() -> None:
    large, little = Queue(30 * MIB), Queue(QUEUE_BYTES_MIN - 1)
    assert orders([large, little], 10 * MIB).queues == [large]


def test_when_it_does_not_suffice_all_give_all() -> None:
    queues = [Queue(MIB), Queue(QUEUE_BYTES_MIN - 1), Queue(0)]
    wanted = orders(queues, 10 * MIB)
    assert wanted.queues == queues[:2]
    assert wanted.kept_share == 0.0


def test_without_messages_there_is_nobody_to_ask() -> None:
    assert orders([Queue(0)], MIB).queues == []
