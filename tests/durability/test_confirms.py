"""A confirm means that the message is on the disk: with disks that are slow, and many at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from acceptance.raw_client import RawClient
from broker_process import BrokerProcess
from durability.disk_faults import DiskFaults
from durability.mail import (
    PERSISTENT_BLOCK,
    Confirms,
    acknowledge,
    bodies,
    client_of,
    declare,
    look_once,
    mixed,
    ready,
    receive_mail,
    send,
)
from durability.under_test import IS_REFERENCE, crash

SLOW_MS = 500
SLOW_S = SLOW_MS / 1000
VERY_SLOW_MS = 1_500
TRIES = 10
LARGE = 20_000

Faulty = tuple[BrokerProcess, DiskFaults]


@pytest.fixture
def slow(faulty: Faulty) -> Faulty:
    """A running broker, to whose syncs the test adds half a second when it wants to."""
    broker, faults = faulty
    broker.start()
    with client_of(broker) as client:
        declare(client, "durable")
        client.call(1, "queue.declare", queue="transient")
    return broker, faults


def confirm_time_s(
    client: RawClient, body: bytes, properties: bytes = PERSISTENT_BLOCK, **to: str
) -> float:
    """For one message, the channel being fresh."""
    confirms = Confirms(client)
    began = time.monotonic()
    confirms.publish(body, properties, **to)
    confirms.wait()
    assert confirms.acked == {1}
    return time.monotonic() - began


def is_quick(act: Callable[[], float]) -> bool:
    """Takes less than a slow sync, at one of several tries: a busy machine may spoil some."""
    return any(act() < SLOW_S for _ in range(TRIES))


@pytest.mark.parametrize("size", [0, 100, LARGE])
def test_a_confirm_waits_for_the_disk(slow: Faulty, size: int) -> None:
    """S3: with a sync of 500 ms no confirm comes earlier; with a fast one it comes at once."""
    broker, faults = slow

    def publish_s() -> float:
        with client_of(broker) as client:
            return confirm_time_s(client, b"x" * size, routing_key="durable")

    assert is_quick(publish_s)
    faults.slow_sync(SLOW_MS)
    assert publish_s() >= SLOW_S
    assert faults.hits("sync")
    with client_of(broker) as client:
        assert ready(client, "durable") >= 2


def test_a_confirm_for_a_transient_message_does_not_wait(slow: Faulty) -> None:
    """S3: nor for a persistent one in a transient queue, nor for one that goes nowhere."""
    broker, faults = slow
    faults.slow_sync(SLOW_MS)

    def publish_s(to: str, properties: bytes = PERSISTENT_BLOCK) -> float:
        with client_of(broker) as client:
            return confirm_time_s(client, b"x", properties, routing_key=to)

    assert is_quick(lambda: publish_s("transient"))
    assert is_quick(lambda: publish_s("nowhere"))
    assert is_quick(lambda: publish_s("durable", b"\0\0"))


def test_a_commit_waits_for_the_disk(slow: Faulty) -> None:
    """S3: tx.commit-ok is a confirm for all of its messages."""
    broker, faults = slow
    faults.slow_sync(SLOW_MS)
    with client_of(broker) as client:
        client.call(1, "tx.select")
        for _ in range(10):
            client.publish(1, b"x" * 100, PERSISTENT_BLOCK, routing_key="durable")
        began = time.monotonic()
        client.call(1, "tx.commit")
        assert time.monotonic() - began >= SLOW_S
    assert faults.hits("sync")


def test_one_sync_confirms_many(slow: Faulty) -> None:
    """S3: what waits is covered by one sync."""
    broker, faults = slow
    faults.slow_sync(SLOW_MS)
    with client_of(broker) as client:
        confirms = Confirms(client)
        began = time.monotonic()
        for body in mixed(1000):
            confirms.publish(body, PERSISTENT_BLOCK, routing_key="durable")
        confirms.wait()
        assert time.monotonic() - began >= SLOW_S
    assert len(faults.hits("sync")) < 200


def test_many_queues_share_a_sync(slow: Faulty) -> None:
    """A hundred queues with a message each do not mean a hundred syncs in a row."""
    broker, faults = slow
    with client_of(broker) as client:
        for number in range(100):
            declare(client, f"shared-{number}")
        faults.slow_sync(100)
        confirms = Confirms(client)
        for number in range(100):
            confirms.publish(b"x" * 100, PERSISTENT_BLOCK, routing_key=f"shared-{number}")
        confirms.wait()
    assert IS_REFERENCE or len(faults.hits("sync")) < 50


def test_nobody_else_waits_for_a_slow_disk(slow: Faulty) -> None:
    """While a sync takes its time, others publish, consume and declare as ever."""
    broker, faults = slow
    with client_of(broker) as writer, client_of(broker) as other:
        other.call(1, "basic.consume", queue="transient", no_ack=True)
        faults.slow_sync(VERY_SLOW_MS)
        confirms = Confirms(writer)

        def are_served_s() -> float:
            confirms.publish(b"x", PERSISTENT_BLOCK, routing_key="durable")
            began = time.monotonic()
            for _ in range(10):
                other.publish(1, b"ping", routing_key="transient")
                receive_mail(other)
                other.call(1, "queue.declare", exclusive=True)
            took_s = time.monotonic() - began
            confirms.wait()
            return took_s

        assert any(are_served_s() < VERY_SLOW_MS / 1000 for _ in range(TRIES))


def test_confirms_are_coalesced(slow: Faulty) -> None:
    """S4: a thousand publishes are answered with fewer than a thousand frames, each once."""
    broker, _ = slow
    with client_of(broker) as client:
        confirms = Confirms(client)
        for body in mixed(1000):
            confirms.publish(body, PERSISTENT_BLOCK, routing_key="durable")
        confirms.wait()
        client.expect_silence()
    assert confirms.acked == set(range(1, 1001))
    assert confirms.frames < 1000


@pytest.mark.parametrize("size", [100, LARGE])
@pytest.mark.parametrize("no_ack", [True, False])
def test_a_message_consumed_before_it_is_written_is_confirmed(
    slow: Faulty, size: int, no_ack: bool
) -> None:
    """S5: a consumer has it and acknowledges it long before the disk; the publisher is told."""
    broker, faults = slow
    sent = [b"%d" % number + b"x" * size for number in range(10)]
    with client_of(broker) as consumer, client_of(broker) as producer:
        consumer.call(1, "basic.consume", queue="durable", no_ack=no_ack)
        faults.slow_sync(SLOW_MS)
        confirms = Confirms(producer)

        def pass_on_s() -> float:
            began = time.monotonic()
            for body in sent:
                confirms.publish(body, PERSISTENT_BLOCK, routing_key="durable")
            mails = [receive_mail(consumer) for _ in sent]
            took_s = time.monotonic() - began
            assert bodies(mails) == sent
            if not no_ack:
                acknowledge(consumer, mails[-1], multiple=True)
            confirms.wait()
            return took_s

        assert is_quick(pass_on_s)
        assert len(confirms.acked) == confirms.sent
        assert ready(consumer, "durable") == 0
    faults.clear()
    send(broker, [b"afterwards"], "durable")
    crash(broker)
    assert bodies(look_once(broker, "durable")) == [b"afterwards"]


@pytest.mark.parametrize("size", [100, LARGE])
def test_later_messages_may_be_confirmed_before_earlier_ones(slow: Faulty, size: int) -> None:
    """S5: some are being written when all are acknowledged, some are not: each gets its answer."""
    broker, faults = slow
    with client_of(broker) as consumer, client_of(broker) as producer:
        consumer.call(1, "basic.consume", queue="durable")
        faults.slow_sync(SLOW_MS)
        confirms = Confirms(producer)
        for _ in range(2):
            for _ in range(4):
                confirms.publish(b"x" * size, PERSISTENT_BLOCK, routing_key="durable")
            mails = [receive_mail(consumer) for _ in range(4)]
        acknowledge(consumer, mails[-1], multiple=True)
        confirms.wait()
        producer.expect_silence()
    assert confirms.acked == set(range(1, 9))
