"""A disk that fails: nothing is confirmed that could be lost, and the broker goes on or says why.

Failing syncs are followed by a power cut, because that is when one that was taken for good shows:
the kernel dropped the pages, and a later sync of the same file says that all is well.
"""

from __future__ import annotations

import random
import time

import pytest

from acceptance.raw_client import METHOD, Login, RawClient
from acceptance.raw_methods import decode_method
from broker_process import BrokerProcess
from durability.disk_faults import MESSAGE_FILES, DiskFaults
from durability.mail import (
    PERSISTENT_BLOCK,
    acknowledge,
    bodies,
    client_of,
    declare,
    look,
    look_once,
    mixed,
    numbered,
    publish_frames,
    receive_mail,
    send,
)
from durability.power_cut import Tape, cut_power
from durability.under_test import IS_REFERENCE, crash
from warren.storage.index.journal import FILL_BYTES_MIN

ANSWER_WITHIN_S = 60.0
LARGE = 20_000

Faulty = tuple[BrokerProcess, DiskFaults]


@pytest.fixture
def ailing(faulty: Faulty) -> Faulty:
    """A running broker with a durable queue, and all that it does to its disk on tape."""
    broker, faults = faulty
    broker.environment = faults.recording
    broker.start()
    with client_of(broker) as client:
        declare(client, "durable")
    return broker, faults


def answer(client: RawClient) -> str:
    """To what was published last on a fresh channel: `ack`, `nack` or `closed`.

    Word that the connection is blocked may come first.
    """
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while True:
        frame = client.receive(max(0.01, deadline - time.monotonic()))
        assert frame.type == METHOD
        name = decode_method(frame.payload).name
        if name in {"basic.ack", "basic.nack"}:
            return name.removeprefix("basic.")
        if name in {"channel.close", "connection.close"}:
            return "closed"
        assert name in {"connection.blocked", "connection.unblocked"}, name


def publish_alone(broker: BrokerProcess, body: bytes) -> str:
    """On a connection of its own; what the broker answered."""
    with RawClient(broker.address).open() as client:
        client.call(1, "confirm.select")
        client.send_bytes(publish_frames(body, PERSISTENT_BLOCK, routing_key="durable"))
        return answer(client)


def publish_each(broker: BrokerProcess, sent: list[bytes]) -> list[bytes]:
    """One after the other; those that were confirmed."""
    return [body for body in sent if publish_alone(broker, body) == "ack"]


def lose_power(broker: BrokerProcess, faults: DiskFaults, chance: random.Random) -> None:
    broker.kill()
    faults.clear()
    tape = Tape(MESSAGE_FILES, loses_names=not IS_REFERENCE)
    tape.play(faults.tape)
    print("\n".join(cut_power(tape, chance)))
    broker.start()


def missing(confirmed: list[bytes], found: list[bytes]) -> list[bytes]:
    return [body[:20] for body in confirmed if body not in found]


def test_confirmed_messages_survive_a_power_cut(ailing: Faulty, chance: random.Random) -> None:
    """S3: not only a kill: nothing confirmed is still on its way to the disk."""
    broker, faults = ailing
    confirmed = []
    for number in range(3):
        sent = mixed(400)[number * 100 :][:300]
        send(broker, sent, "durable")
        confirmed += sent
        lose_power(broker, faults, chance)
        assert bodies(look_once(broker, "durable")) == confirmed


def test_short_writes_are_completed(ailing: Faulty) -> None:
    """The kernel may write less than it was asked to: the rest follows."""
    broker, faults = ailing
    faults.short_writes(1000)
    sent = mixed(300)
    send(broker, sent, "durable")
    assert faults.hits("write")
    crash(broker)
    assert bodies(look_once(broker, "durable")) == sent


@pytest.mark.warren_only
@pytest.mark.parametrize("size", [100, LARGE])
@pytest.mark.parametrize("failures", [1, 3])
def test_a_failed_sync_confirms_nothing_that_can_be_lost(
    ailing: Faulty, chance: random.Random, size: int, failures: int
) -> None:
    """Refused, or written again elsewhere and then confirmed; afterwards all is as before."""
    broker, faults = ailing
    before = numbered(10, size=size)
    send(broker, before, "durable")
    faults.failing_sync(failures)
    doubtful = numbered(10, size=size, start=10)
    confirmed = publish_each(broker, doubtful)
    assert len(faults.hits("sync")) == failures
    faults.clear()
    after = numbered(10, size=size, start=20)
    send(broker, after, "durable")
    # It is the sync of a batch that fails, or that of a file being prepared for later ones.
    assert "[error]" in broker.log() or "message store cannot create a file" in broker.log()
    lose_power(broker, faults, chance)
    found = bodies(look_once(broker, "durable"))
    assert missing(before + confirmed + after, found) == []
    assert found == [body for body in before + doubtful + after if body in found]


@pytest.mark.warren_only
@pytest.mark.parametrize("size", [100, LARGE])
def test_a_message_consumed_before_its_sync_fails_is_answered(ailing: Faulty, size: int) -> None:
    """Nothing is left to be written anew for it, but its publisher still waits."""
    broker, faults = ailing
    with client_of(broker) as consumer, RawClient(broker.address).open() as publisher:
        consumer.call(1, "basic.consume", queue="durable")
        publisher.call(1, "confirm.select")
        faults.rule(f"sync {MESSAGE_FILES} delay_ms=400 errno=5 count=1")
        frames = publish_frames(b"x" * size, PERSISTENT_BLOCK, routing_key="durable")
        publisher.send_bytes(frames)
        acknowledge(consumer, receive_mail(consumer))
        assert answer(publisher) in {"ack", "nack"}
    assert faults.hits("sync")


@pytest.mark.warren_only
def test_failing_syncs_under_load(ailing: Faulty, chance: random.Random) -> None:
    """Many messages wait for the sync that fails, of all sizes: each gets its own answer."""
    broker, faults = ailing
    sent = numbered(200, size=100) + numbered(50, size=LARGE, start=200)
    acked: set[int] = set()
    answered: set[int] = set()
    with RawClient(broker.address).open() as client:
        client.call(1, "confirm.select")
        faults.rule(f"sync {MESSAGE_FILES} errno=5 skip=1 count=2")
        for body in sent:
            client.send_bytes(publish_frames(body, PERSISTENT_BLOCK, routing_key="durable"))
        while len(answered) < len(sent):
            frame = client.receive(ANSWER_WITHIN_S)
            method = decode_method(frame.payload)
            first = 1 if method.multiple else method.delivery_tag
            numbers = set(range(first, method.delivery_tag + 1)) - answered
            answered |= numbers
            acked |= numbers if method.name == "basic.ack" else set()
    assert faults.hits("sync")
    lose_power(broker, faults, chance)
    found = bodies(look_once(broker, "durable"))
    assert missing([sent[number - 1] for number in sorted(acked)], found) == []
    assert found == [body for body in sent if body in found]


@pytest.mark.warren_only
@pytest.mark.parametrize("size", [100, LARGE])
def test_a_disk_that_never_syncs_refuses_and_serves(ailing: Faulty, size: int) -> None:
    """No confirm comes true; consumers get what is there, and it ends when the disk is well."""
    broker, faults = ailing
    send(broker, numbered(5, size=size), "durable")
    faults.failing_sync(count=10**6)
    assert publish_each(broker, numbered(3, size=size, start=5)) == []
    with client_of(broker) as client:
        mails = look(client, "durable", count=5)
        assert bodies(mails) == numbered(5, size=size)
    faults.clear()
    wait_until_accepted(broker, b"well again")
    assert b"well again" in bodies(look_once(broker, "durable"))


def wait_until_accepted(broker: BrokerProcess, body: bytes) -> None:
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while publish_alone(broker, body) != "ack":
        assert time.monotonic() < deadline, "the broker does not recover"
        time.sleep(0.2)


@pytest.mark.warren_only
@pytest.mark.parametrize("size", [100, LARGE])
def test_a_full_disk_refuses_and_serves(ailing: Faulty, size: int) -> None:
    """No space in the middle of a write: refused, the rest is consumed, and all is kept."""
    broker, faults = ailing
    # The first message brings zeros for those after it (storage/index/journal), if it is small.
    faults.no_space(after_bytes=FILL_BYTES_MIN + 5 * size + 50)
    sent = numbered(20, size=size)
    confirmed = []
    for body in sent:
        if publish_alone(broker, body) != "ack":
            break
        confirmed.append(body)
    assert len(confirmed) < len(sent), "nobody noticed that the disk is full"
    assert faults.hits("write")
    with client_of(broker) as client:
        mails = look(client, "durable", count=len(confirmed))
        assert bodies(mails) == confirmed
        acknowledge(client, mails[0])
    faults.clear()
    wait_until_accepted(broker, b"space again")
    crash(broker)
    found = bodies(look_once(broker, "durable"))
    assert missing([*confirmed[1:], b"space again"], found) == []


@pytest.mark.warren_only
def test_a_full_disk_blocks_publishers_and_says_so(ailing: Faulty) -> None:
    """It raises the disk alarm: publishers are told `low on disk`, consumers go on."""
    broker, faults = ailing
    send(broker, numbered(10), "durable")
    faults.no_space()
    with RawClient(broker.address).open(Login()) as publisher, client_of(broker) as consumer:
        publisher.call(1, "confirm.select")
        deadline = time.monotonic() + ANSWER_WITHIN_S
        told = ""
        while not told and time.monotonic() < deadline:
            publisher.send_bytes(publish_frames(b"x", PERSISTENT_BLOCK, routing_key="durable"))
            frame = publisher.receive(ANSWER_WITHIN_S)
            method = decode_method(frame.payload)
            assert method.name in {"connection.blocked", "basic.nack"}
            told = method.fields.get("reason", "")
        assert told == "low on disk"
        consumer.call(1, "basic.consume", queue="durable")
        assert [receive_mail(consumer).body for _ in range(10)] == numbered(10)
        faults.clear()
        while True:
            frame = publisher.receive(ANSWER_WITHIN_S)
            if decode_method(frame.payload).name == "connection.unblocked":
                break


@pytest.mark.warren_only
def test_a_disk_that_fails_during_a_clean_stop(ailing: Faulty) -> None:
    """The stop does not hang, and what was confirmed is there after the next start."""
    broker, faults = ailing
    sent = mixed(200)
    send(broker, sent, "durable")
    faults.failing_sync(count=10**6)
    broker.stop()
    faults.clear()
    broker.start()
    assert bodies(look_once(broker, "durable")) == sent
