"""Queues with settings of their own over a restart: priorities, lifetimes, dead letters, limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from acceptance.actions import eventually
from broker_process import BrokerProcess
from durability.mail import (
    bodies,
    client_of,
    declare_in,
    look,
    look_once,
    mixed,
    numbered,
    ready,
    send,
)
from durability.under_test import Restart, either_way

VERY_LONG_MS = 3_600_000
TRIES_MAX = 4


@either_way
def test_a_priority_queue_keeps_priorities_and_order(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """S30: the highest first, and those of one priority in the order of their arrival."""
    declare_in(mortal, "ranked", **{"x-max-priority": 5})
    sent = []
    for number in range(60):
        priority = number * 7 % 8  # those above the maximum count as the maximum
        body = b"%d %02d " % (min(priority, 5), number) * (2000 if number % 9 == 0 else 1)
        send(mortal, [body], "ranked", priority=priority)
        sent.append(body)
    send(mortal, [b"0 99 none"], "ranked")
    restart(mortal)
    found = bodies(look_once(mortal, "ranked"))
    assert sorted(found) == sorted([*sent, b"0 99 none"])
    for first, second in pairwise(found):
        assert (first[:1], second[2:4]) > (second[:1], first[2:4])


@either_way
def test_time_to_live_goes_on_while_the_broker_is_down(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """A message whose time came is gone; one whose time has not come lives as long as it had."""
    declare_in(mortal, "ageing")
    declare_in(mortal, "young", **{"x-message-ttl": VERY_LONG_MS})
    send(mortal, [b"very long"], "young")
    down_s = duration_s(lambda: restart(mortal))
    for _ in range(TRIES_MAX):
        long_s = 2 + 5 * down_s
        sent_at = send_ageing(mortal, long_s)
        restart(mortal)
        with client_of(mortal) as client:
            eventually(lambda: ready(client, "ageing") <= 3)
            assert ready(client, "young") == 1
        found = bodies(look_once(mortal, "ageing"))
        if time.monotonic() < sent_at + long_s:
            break
        down_s *= 3  # on a machine so busy
    assert found == [b"long", b"very long", b"for ever"]
    # Were it counted from the restart on, it would take longer.
    time.sleep(max(0, sent_at + long_s + down_s / 2 - time.monotonic()))
    assert bodies(look_once(mortal, "ageing")) == [b"very long", b"for ever"]


def send_ageing(broker: BrokerProcess, long_s: float) -> float:
    """To a queue that has nothing else; when the one that lives for so long was there."""
    with client_of(broker) as client:
        client.call(1, "queue.purge", queue="ageing")
    for body, lifetime_s in ((b"short", 0.5), (b"long", long_s)):
        send(broker, [body], "ageing", expiration=str(int(lifetime_s * 1000)))
    sent_at = time.monotonic()
    send(broker, [b"very long"], "ageing", expiration=str(VERY_LONG_MS))
    send(broker, [b"for ever"], "ageing")
    return sent_at


def duration_s(act: Callable[[], None]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@either_way
def test_dead_letters_survive(mortal: BrokerProcess, restart: Restart) -> None:
    """A rejected message, and one that expires while the broker is down, with their histories."""
    declare_in(mortal, "dead")
    route = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare_in(mortal, "source", **route)
    large = b"large" * 2000
    send(mortal, [b"rejected", large], "source")
    with client_of(mortal) as client:
        for mail in look(client, "source"):
            client.send(1, "basic.reject", delivery_tag=mail.tag, requeue=False)
        eventually(lambda: ready(client, "dead") == 2)
    send(mortal, [b"expires"], "source", expiration="300")
    send(mortal, [b"stays"], "source")
    restart(mortal)
    with client_of(mortal) as client:
        eventually(lambda: ready(client, "dead") == 3)
    found = look_once(mortal, "dead")
    assert bodies(found) == [b"rejected", large, b"expires"]
    for mail, reason in zip(found, (b"rejected", b"rejected", b"expired"), strict=True):
        death = mail.properties["headers"]["x-death"].value[0].value
        assert (death["reason"].value, death["queue"].value) == (reason, b"source")
    assert bodies(look_once(mortal, "source")) == [b"stays"]


@either_way
def test_limits_hold_after_a_restart(mortal: BrokerProcess, restart: Restart) -> None:
    """What was dropped stays dropped, and what comes pushes out the oldest that are there."""
    declare_in(mortal, "ten", **{"x-max-length": 10})
    declare_in(mortal, "bytes", **{"x-max-length-bytes": 50_000})
    send(mortal, numbered(50), "ten")
    send(mortal, numbered(50, size=10_000), "bytes")
    restart(mortal)
    send(mortal, numbered(3, start=50), "ten")
    send(mortal, numbered(2, size=10_000, start=50), "bytes")
    assert bodies(look_once(mortal, "ten")) == numbered(10, start=43)
    assert bodies(look_once(mortal, "bytes")) == numbered(5, size=10_000, start=47)


@either_way
def test_a_queue_that_refuses_is_still_full_after_a_restart(
    mortal: BrokerProcess, restart: Restart
) -> None:
    """With reject-publish: recovered messages count, and the refused ones never appear."""
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    declare_in(mortal, "full", **arguments)
    send(mortal, numbered(5), "full")
    restart(mortal)
    with pytest.raises(AssertionError, match="nacked"):
        send(mortal, [b"one too many"], "full")
    restart(mortal)
    assert bodies(look_once(mortal, "full")) == numbered(5)


@either_way
def test_a_lazy_queue_survives(mortal: BrokerProcess, restart: Restart) -> None:
    """S14: persistent ones in order; transient ones are gone although they were on disk."""
    declare_in(mortal, "lazy", **{"x-queue-mode": "lazy"})
    sent = mixed(3000)
    send(mortal, sent[:1500], "lazy")
    send(mortal, [b"gone", b"gone" * 3000], "lazy", delivery_mode=1)
    send(mortal, sent[1500:], "lazy")
    restart(mortal)
    assert bodies(look_once(mortal, "lazy")) == sent
