"""Publishers that are faster than a disk, and consumers that are slower than a queue.

There is no slow disk here: a queue of a node in a thread gets a backing that charges a credit for
what it takes, and the test decides when that is safe.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.alarm_control import InProcessAlarmControl
from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    RawClient,
    frame_bytes,
    header_payload,
)
from acceptance.raw_methods import encode_method
from live_broker import ConnectRaw, Names
from warren.flow.credit import Credit
from warren.flow.states import FlowRecord, state_of
from warren.queues.memory_backing import MemoryBacking

KIB = 1024
BODY_BYTES = 1000
CREDIT_BYTES = 64 * KIB
READ_BYTES = 128 * KIB
QUEUE = "flow"


class ChargingBacking(MemoryBacking):
    """What a disk would do: whatever is published here is under way until `settle`."""

    def __init__(self, credit: Credit) -> None:
        super().__init__()
        self.credit = credit
        self.flow = FlowRecord()

    def publish(self, message: Any, expires_at_ms: int, publisher: Any, sequence: int) -> int:
        self.credit.charge(len(message.body), self.flow)
        return super().publish(message, expires_at_ms, publisher, sequence)

    def settle(self) -> None:
        self.credit.release(self.credit.bytes_used)


class SlowDisk:
    """A node in a thread, its slow queue, and clients."""

    def __init__(self, directory: Path) -> None:
        self.control = InProcessAlarmControl(directory)
        self.clients: list[RawClient] = []
        self.open().call(1, "queue.declare", queue=QUEUE)
        self.backing: ChargingBacking = self.on_loop(self._swap_backing)

    def _swap_backing(self) -> ChargingBacking:
        node = self.control.node
        credit = Credit(CREDIT_BYTES)
        node.context.brake.watch(credit)
        backing = ChargingBacking(credit)
        node.broker.vhosts["/"].queues[QUEUE].backing = backing
        return backing

    def on_loop(self, action: Any) -> Any:
        return self.control.on_loop(action)

    def open(self, channels: int = 1) -> RawClient:
        self.clients.append(RawClient(self.control.address).open(channels=channels))
        return self.clients[-1]

    @property
    def taken(self) -> int:
        length = self.on_loop(lambda: self.backing.length)
        assert isinstance(length, int)
        return length

    def settle(self) -> None:
        self.on_loop(self.backing.settle)

    def settle_until_taken(self, count: int) -> None:
        def is_there() -> bool:
            self.settle()
            return self.taken == count

        eventually(is_there)
        self.settle()  # what came between the last time and the look

    def channel_states(self, number: int) -> list[str]:
        """Return the states of the channels of all connections that have this number."""
        return sorted(
            self.on_loop(
                lambda: [
                    connection.channel_state(number)
                    for connection in self.control.node.connections
                    if any(channel.number == number for channel in connection.channels)
                ]
            )
        )

    def queue_state(self) -> str:
        clock = self.control.node.context.clock
        return str(self.on_loop(lambda: state_of(self.backing.flow, clock.now_ms())))

    def stop(self) -> None:
        for client in self.clients:
            client.drop()
        self.control.stop()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SlowDisk]:
    disk = SlowDisk(tmp_path)
    yield disk
    disk.stop()


def publishes(count: int, routing_key: str = QUEUE, channel: int = 1) -> bytes:
    frames = frame_bytes(METHOD, channel, encode_method("basic.publish", routing_key=routing_key))
    frames += frame_bytes(HEADER, channel, header_payload(BODY_BYTES, b"\0\0"))
    return (frames + frame_bytes(BODY, channel, b"x" * BODY_BYTES)) * count


def await_standstill(disk: SlowDisk) -> int:
    """How much has been taken when a publisher waits: nothing more is."""
    eventually(lambda: disk.on_loop(lambda: disk.backing.flow.is_held))
    eventually(lambda: "flow" in disk.control.connection_states())
    last = -1
    while (taken := disk.taken) != last:
        last = taken
        time.sleep(0.1)
    return last


def test_a_publisher_waits_for_a_disk_that_is_behind_and_nothing_is_lost(disk: SlowDisk) -> None:
    """What is taken ahead of the disk is bounded: the credit, a read and a message."""
    client = disk.open()
    total = 2_000
    sender = threading.Thread(target=client.send_bytes, args=(publishes(total),))
    sender.start()
    taken = await_standstill(disk)
    assert CREDIT_BYTES <= taken * BODY_BYTES <= CREDIT_BYTES + READ_BYTES + BODY_BYTES
    disk.settle()
    eventually(lambda: disk.taken > taken)
    disk.settle_until_taken(total)
    sender.join()


def test_everybody_who_publishes_there_waits_and_gets_one_message_through(disk: SlowDisk) -> None:
    disk.open().send_bytes(publishes(200))
    taken = await_standstill(disk)
    for others in (1, 2, 3):
        disk.open().send_bytes(publishes(50))
        eventually(lambda expected=taken + others: disk.taken == expected)
    disk.settle_until_taken(200 + 3 * 50)


def test_who_publishes_elsewhere_or_consumes_goes_on(disk: SlowDisk) -> None:
    disk.open().send_bytes(publishes(200))
    taken = await_standstill(disk)
    other = disk.open()
    elsewhere = other.call(1, "queue.declare", exclusive=True).queue
    other.call(1, "confirm.select")
    other.send_bytes(publishes(300, elsewhere))
    while other.expect(1, "basic.ack").delivery_tag < 300:
        pass
    consumer = disk.open()
    consumer.call(1, "basic.consume", queue=QUEUE)
    for _ in range(taken):
        tag = consumer.expect_content(1, "basic.deliver").method.delivery_tag
        consumer.send(1, "basic.ack", delivery_tag=tag)
    assert "flow" in disk.control.connection_states()


def test_flow_is_shown_for_what_the_disk_holds_up(disk: SlowDisk) -> None:
    """Connection, channel and queue: the bottleneck is the store. The client hears nothing."""
    client = disk.open(channels=2)
    assert disk.queue_state() == "running"
    client.send_bytes(publishes(200, channel=2))
    await_standstill(disk)
    assert disk.control.connection_states() == ["flow", "running"]
    assert disk.channel_states(2) == ["flow"]
    assert disk.channel_states(1) == ["running", "running"]
    assert disk.queue_state() == "flow"
    client.expect_silence()
    disk.settle_until_taken(200)
    eventually(lambda: disk.channel_states(2) == ["running"])
    eventually(lambda: disk.queue_state() == "running")
    eventually(lambda: disk.control.connection_states() == ["running", "running"])


def test_a_publisher_that_leaves_while_it_waits_is_forgotten(disk: SlowDisk) -> None:
    """By a shut-down of the node it is told, as anybody is."""
    client = disk.open()
    client.send_bytes(publishes(200))
    taken = await_standstill(disk)
    disk.on_loop(lambda: [c.shut_down("for a test") for c in disk.control.node.connections])
    client.expect_connection_close(320)
    disk.settle()
    later = disk.open()
    later.send_bytes(publishes(1))
    eventually(lambda: disk.taken == taken + 1)
    disk.settle()
    assert not disk.on_loop(lambda: disk.control.node.context.brake.is_on)


def test_a_consumer_that_does_not_read_leaves_the_rest_to_others(
    raw: ConnectRaw, names: Names
) -> None:
    """S24: without a prefetch limit, the queue stops when the socket has no room."""
    queue, total = names("unread"), 20_000
    publisher = raw()
    publisher.call(1, "queue.declare", queue=queue)
    publisher.send_bytes(publishes(total, queue))
    eventually(lambda: ready(publisher, queue) == total)
    deaf = raw(opened_up=False)
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    deaf.open()
    deaf.call(1, "basic.consume", queue=queue)
    eventually(lambda: ready(publisher, queue) < total)
    time.sleep(0.5)  # as long as it goes on, if it does
    assert ready(publisher, queue) > total // 2
    deaf.drop()
    publisher.call(1, "basic.consume", queue=queue, no_ack=True)
    for _ in range(total):
        publisher.expect_content(1, "basic.deliver")


def ready(client: RawClient, queue: str) -> int:
    count = client.call(1, "queue.declare", queue=queue, passive=True).message_count
    assert isinstance(count, int)
    return count
