"""Clients that do not read: what the broker holds for them is bounded, and others are served."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import BODY, HEADER, METHOD, RawClient, frame_bytes, header_payload
from acceptance.raw_methods import encode_method
from broker_process import BrokerProcess
from live_broker import ConnectRaw, Names

MIB = 2**20
BODY_BYTES = 16 * 1024
BACKLOG = 2500
LOOKS = 5
# What sockets hold on both sides, and what a broker may keep for one client beyond that.
KEPT_FOR_ONE_BYTES_MAX = 12 * MIB
SENT_WITHOUT_READING_BYTES_MAX = 48 * MIB


@contextlib.contextmanager
def memory_bound(own_broker: BrokerProcess | None, growth_bytes_max: int) -> Iterator[None]:
    before = own_broker.resident_bytes() if own_broker else 0
    yield
    if own_broker:
        growth = own_broker.resident_bytes() - before
        assert growth < growth_bytes_max, f"the broker grew by {growth / MIB:.1f} MiB"


def publish_frames(routing_key: str, body: bytes, mandatory: bool = False) -> bytes:
    publish = encode_method("basic.publish", routing_key=routing_key, mandatory=mandatory)
    frames = frame_bytes(METHOD, 1, publish)
    frames += frame_bytes(HEADER, 1, header_payload(len(body), b"\0\0"))
    return frames + frame_bytes(BODY, 1, body)


def ready(client: RawClient, queue: str) -> int:
    count = client.call(1, "queue.declare", queue=queue, passive=True).message_count
    assert isinstance(count, int)
    return count


@pytest.fixture
def backlog(raw: ConnectRaw, names: Names) -> str:
    """A queue with 40 MiB in it."""
    client, queue = raw(), names("backlog")
    client.call(1, "queue.declare", queue=queue)
    client.send_bytes(publish_frames(queue, b"x" * BODY_BYTES) * BACKLOG)
    eventually(lambda: ready(client, queue) == BACKLOG, within_s=120)
    return queue


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_consumer_that_never_reads_is_not_written_to_for_ever(
    raw: ConnectRaw, backlog: str, own_broker: BrokerProcess | None, no_ack: bool
) -> None:
    """Most of the backlog stays in the queue, and another consumer gets it at once."""
    other = raw()
    with memory_bound(own_broker, KEPT_FOR_ONE_BYTES_MAX):
        deaf = raw()
        deaf.call(1, "basic.consume", queue=backlog, no_ack=no_ack)
        settle(other, backlog)
        left = ready(other, backlog)
        assert (BACKLOG - left) * BODY_BYTES < KEPT_FOR_ONE_BYTES_MAX
    other.call(1, "basic.consume", queue=backlog, no_ack=True)
    for _ in range(left):
        other.expect_content(1, "basic.deliver")


def settle(client: RawClient, queue: str) -> None:
    """Until the number of ready messages has stood still for a while."""
    looks: list[int] = []
    while len(looks) < LOOKS or len(set(looks[-LOOKS:])) > 1:
        looks.append(ready(client, queue))
        time.sleep(0.1)


def test_what_a_dropped_slow_consumer_held_comes_back(raw: ConnectRaw, backlog: str) -> None:
    """Delivered to a client that never read it, unacknowledged: all of it is ready again."""
    other, deaf = raw(), raw()
    deaf.call(1, "basic.consume", queue=backlog)
    settle(other, backlog)
    assert ready(other, backlog) < BACKLOG
    deaf.drop()
    eventually(lambda: ready(other, backlog) == BACKLOG)


def send_until_blocked(client: RawClient, frames: bytes) -> int:
    """Send without reading until the broker takes no more for a second; how much it took."""
    client.socket.settimeout(1.0)
    sent = 0
    block = frames * (256 * 1024 // len(frames) + 1)
    with contextlib.suppress(TimeoutError):
        while sent < SENT_WITHOUT_READING_BYTES_MAX:
            offset = 0
            while offset < len(block):
                taken = client.socket.send(block[offset:])
                offset += taken
                sent += taken
    return sent


def test_a_publisher_that_never_reads_its_returns(
    raw: ConnectRaw, names: Names, own_broker: BrokerProcess | None
) -> None:
    """What comes back is as large as what is sent: reading has to stop when writing cannot go on.

    A broker that reads on keeps every returned message for the client that does not want it.
    """
    frames = publish_frames(names("nowhere"), b"x" * BODY_BYTES, mandatory=True)
    client = raw()
    with memory_bound(own_broker, 2 * KEPT_FOR_ONE_BYTES_MAX):
        sent = send_until_blocked(client, frames)
    if own_broker:
        assert sent < SENT_WITHOUT_READING_BYTES_MAX, "the broker took everything"


def test_a_client_that_never_reads_its_answers(
    raw: ConnectRaw, names: Names, own_broker: BrokerProcess | None
) -> None:
    """The same with requests: answers nobody reads are not piled up."""
    client, queue = raw(), names("q" * 200)
    client.call(1, "queue.declare", queue=queue)
    request = frame_bytes(METHOD, 1, encode_method("queue.declare", queue=queue, passive=True))
    with memory_bound(own_broker, 2 * KEPT_FOR_ONE_BYTES_MAX):
        send_until_blocked(client, request)


def test_a_slow_reader_gets_everything_in_the_end(raw: ConnectRaw, backlog: str) -> None:
    """Reading with pauses, in small pieces: all messages come, in order, none twice."""
    client = raw()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    client.call(1, "basic.consume", queue=backlog, no_ack=True)
    for number in range(BACKLOG):
        if number % 500 == 0:
            time.sleep(0.1)
        assert client.expect_content(1, "basic.deliver").method.delivery_tag == number + 1
    client.expect_silence()
