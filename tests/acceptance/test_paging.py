"""Messages leave memory when they should, and come back when somebody wants them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.alarm_control import MEMORY_DEFAULT, MORE_THAN_ANY_DISK, InProcessAlarmControl
from acceptance.raw_client import BODY, HEADER, METHOD, RawClient, frame_bytes, header_payload
from acceptance.raw_methods import encode_method
from warren.storage.queue.paging_host import PLACE_BYTES

PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"
SHORT_OF_MEMORY = 0.0001
COUNT = 10_000
BODY_BYTES = 200
LARGE_BYTES = 100_000
LARGE_COUNT = 60
WITHIN_S = 60.0


class Broker:
    """A node in a thread, of which tests may ask where messages are."""

    def __init__(self, directory: Path) -> None:
        self.control = InProcessAlarmControl(directory)
        self.clients: list[RawClient] = []
        self.client = self.open()

    def open(self) -> RawClient:
        client = RawClient(self.control.address).open()
        self.clients.append(client)
        return client

    def declare(self, queue: str, *, durable: bool = True, **arguments: Any) -> None:
        self.client.call(1, "queue.declare", queue=queue, durable=durable, arguments=arguments)

    def queue(self, name: str) -> Any:
        return self.control.node.broker.vhosts["/"].queues[name]

    def figures(self, queue: str) -> dict[str, int]:
        named = self.control.on_loop(lambda: self.queue(queue).backing.figures().named())
        assert isinstance(named, dict)
        return named

    def status(self, queue: str) -> dict[str, Any]:
        status = self.control.on_loop(lambda: self.queue(queue).backing.status(0))
        assert isinstance(status, dict)
        return status

    def publish_large(self, queue: str, count: int, properties: bytes) -> None:
        method = frame_bytes(METHOD, 1, encode_method("basic.publish", routing_key=queue))
        header = frame_bytes(HEADER, 1, header_payload(LARGE_BYTES, properties))
        for number in range(count):
            body = frame_bytes(BODY, 1, (b"%d" % number).ljust(LARGE_BYTES, b"."))
            self.client.send_bytes(method + header + body)
        eventually(lambda: self.figures(queue)["messages_ready"] == count, WITHIN_S)

    def publish(self, queue: str, start: int, count: int, properties: bytes = PERSISTENT) -> None:
        method = frame_bytes(METHOD, 1, encode_method("basic.publish", routing_key=queue))
        header = frame_bytes(HEADER, 1, header_payload(BODY_BYTES, properties))
        bodies = (b"%d" % number for number in range(start, start + count))
        frames = [method + header + frame_bytes(BODY, 1, b.ljust(BODY_BYTES, b".")) for b in bodies]
        self.client.send_bytes(b"".join(frames))
        eventually(lambda: self.figures(queue)["messages_ready"] == start + count, WITHIN_S)

    def consume(self, queue: str, count: int) -> list[int]:
        consumer = self.open()
        consumer.call(1, "basic.consume", queue=queue, no_ack=True)
        got = [consumer.expect_content(1, "basic.deliver").body for _ in range(count)]
        return [int(body.partition(b".")[0]) for body in got]

    def stop(self) -> None:
        for client in self.clients:
            client.drop()
        self.control.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    broker.stop()


def test_c122_with_a_ratio_above_one_messages_stay_in_memory(broker: Broker) -> None:
    """However short of it the node is; publishers are blocked all the same."""
    broker.declare("q")
    broker.publish("q", 0, COUNT)
    node = broker.control.node
    broker.control.on_loop(lambda: setattr(node.alarms.memory, "paging_ratio", 1.5))
    broker.control.set_memory_watermark(SHORT_OF_MEMORY)
    broker.control.on_loop(node.governor.govern)
    assert not node.governor.is_saving
    assert broker.figures("q")["messages_ram"] == COUNT
    assert node.alarms.memory.is_alarmed


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
def test_s13_a_node_short_of_memory_moves_messages_to_disk(
    broker: Broker, durable: bool, properties: bytes
) -> None:
    broker.declare("q", durable=durable)
    broker.publish("q", 0, COUNT, properties)
    assert broker.figures("q")["messages_ram"] == COUNT
    assert broker.status("q")["target_ram_count"] == "infinity"
    broker.control.set_memory_watermark(SHORT_OF_MEMORY)
    eventually(lambda: broker.figures("q")["messages_ram"] < COUNT // 10, WITHIN_S)
    assert broker.status("q")["delta"][2] > COUNT * 9 // 10
    assert broker.status("q")["target_ram_count"] == 0
    assert broker.figures("q")["messages_persistent"] == COUNT * (durable and properties[2] == 2)
    broker.control.set_memory_watermark(MEMORY_DEFAULT)
    broker.control.on_loop(broker.control.node.governor.govern)  # what it does now and then
    eventually(lambda: broker.status("q")["target_ram_count"] == "infinity", WITHIN_S)
    broker.publish("q", COUNT, 100, properties)
    assert broker.consume("q", COUNT + 100) == list(range(COUNT + 100))


def test_s13_so_does_every_priority_of_a_queue(broker: Broker) -> None:
    """rabbitmq-server#67: they were never paged."""
    broker.declare("q", **{"x-max-priority": 3})
    broker.publish("q", 0, COUNT // 2, b"\x18\x00\x02\x00")
    broker.publish("q", COUNT // 2, COUNT // 2, b"\x18\x00\x02\x03")
    broker.control.set_memory_watermark(SHORT_OF_MEMORY)
    eventually(lambda: broker.figures("q")["messages_ram"] < COUNT // 10, WITHIN_S)
    lengths = {"0": COUNT // 2, "1": 0, "2": 0, "3": COUNT // 2}
    assert broker.status("q")["priority_lengths"] == lengths
    broker.control.set_memory_watermark(MEMORY_DEFAULT)
    numbers = list(range(COUNT))
    assert broker.consume("q", COUNT) == numbers[COUNT // 2 :] + numbers[: COUNT // 2]


def test_s13_with_the_disk_alarm_on_messages_stay_in_memory(broker: Broker) -> None:
    broker.declare("q")
    broker.publish("q", 0, COUNT)
    broker.control.set_disk_free_limit(MORE_THAN_ANY_DISK)
    broker.control.set_memory_watermark(SHORT_OF_MEMORY)
    broker.control.on_loop(broker.control.node.governor.govern)
    assert broker.figures("q")["messages_ram"] == COUNT
    assert broker.status("q")["target_ram_count"] == "infinity"


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
def test_s14_a_lazy_queue_has_nothing_in_memory(
    broker: Broker, durable: bool, properties: bytes
) -> None:
    """However little it has, and without anything else happening."""
    broker.declare("q", durable=durable, **{"x-queue-mode": "lazy"})
    broker.publish("q", 0, COUNT, properties)
    eventually(lambda: broker.figures("q")["messages_ram"] == 0, WITHIN_S)
    status = broker.status("q")
    assert (status["mode"], status["len"], status["delta"][2]) == ("lazy", COUNT, COUNT)
    assert [status[name] for name in ("q1", "q2", "q3", "q4")] == [0, 0, 0, 0]
    assert broker.consume("q", COUNT) == list(range(COUNT))


def test_s15_a_default_queue_that_becomes_lazy_lets_go_of_everything(broker: Broker) -> None:
    """And one that becomes a default queue again goes on where it was."""
    broker.declare("q")
    broker.publish("q", 0, COUNT, TRANSIENT)
    backing = broker.queue("q").backing
    broker.control.on_loop(lambda: backing.set_lazy(True))
    eventually(lambda: broker.figures("q")["messages_ram"] == 0, WITHIN_S)
    broker.control.on_loop(lambda: backing.set_lazy(False))
    assert broker.status("q")["mode"] == "default"
    broker.publish("q", COUNT, 100, TRANSIENT)
    assert broker.consume("q", COUNT + 100) == list(range(COUNT + 100))


@pytest.mark.parametrize(
    ("properties", "state"), [(PERSISTENT, "gamma"), (TRANSIENT, "beta")], ids=["gamma", "beta"]
)
def test_large_bodies_leave_memory_before_their_places(
    broker: Broker, properties: bytes, state: str
) -> None:
    broker.declare("q")
    broker.publish_large("q", LARGE_COUNT, properties)
    assert broker.status("q")["alpha"] == LARGE_COUNT

    def save() -> None:
        broker.queue("q").backing.save_memory(LARGE_BYTES)

    broker.control.on_loop(save)
    eventually(lambda: broker.status("q")[state] == LARGE_COUNT, WITHIN_S)
    assert broker.figures("q")["message_bytes_ram"] == 0
    assert (broker.status("q")["q3"], broker.status("q")["delta"][2]) == (LARGE_COUNT, 0)
    assert broker.consume("q", LARGE_COUNT) == list(range(LARGE_COUNT))


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
def test_small_bodies_leave_memory_before_their_places(broker: Broker, properties: bytes) -> None:
    broker.declare("q")
    broker.publish("q", 0, COUNT, properties)
    room_bytes = COUNT * PLACE_BYTES
    broker.control.on_loop(lambda: broker.queue("q").backing.save_memory(room_bytes))

    def gammas() -> int:
        broker.control.on_loop(lambda: scatter(broker))
        return int(broker.status("q")["gamma"])

    eventually(lambda: gammas() == COUNT // 2, WITHIN_S)
    status = broker.status("q")
    assert (status["q3"] + status["q2"], status["beta"]) == (COUNT // 2, 0)
    assert status["alpha"] + status["gamma"] + status["delta"][2] == COUNT
    assert broker.consume("q", COUNT) == list(range(COUNT))
    reads, _ = disk_counts(broker, "q")
    assert reads <= COUNT, "each body is read once"


def scatter(broker: Broker) -> None:
    broker.control.node.messages.vhosts["/"].scatter_now()


@pytest.mark.parametrize("properties", [PERSISTENT, TRANSIENT], ids=["persistent", "transient"])
def test_bodies_that_clients_have_leave_memory_and_come_back(
    broker: Broker, properties: bytes
) -> None:
    broker.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    broker.declare("q", **arguments)
    broker.publish_large("q", LARGE_COUNT, properties)
    consumer = broker.open()
    consumer.call(1, "basic.consume", queue="q")
    for _ in range(LARGE_COUNT):
        consumer.expect_content(1, "basic.deliver")
    broker.control.set_memory_watermark(SHORT_OF_MEMORY)
    eventually(lambda: broker.figures("q")["messages_unacknowledged_ram"] == 0, WITHIN_S)
    assert broker.figures("q")["message_bytes_ram"] == 0
    consumer.send(1, "basic.reject", delivery_tag=1, requeue=False)
    consumer.send(1, "basic.ack", delivery_tag=2)
    consumer.send(1, "basic.nack", delivery_tag=LARGE_COUNT, multiple=True, requeue=True)
    again = [consumer.expect_content(1, "basic.deliver") for _ in range(LARGE_COUNT - 2)]
    assert [int(each.body.partition(b".")[0]) for each in again] == list(range(2, LARGE_COUNT))
    assert {len(each.body) for each in again} == {LARGE_BYTES}
    eventually(lambda: broker.figures("dead")["messages_ready"] == 1, WITHIN_S)
    assert broker.consume("dead", 1) == [0]


@pytest.mark.parametrize("body_bytes", [BODY_BYTES, 5_000], ids=["embedded", "in the store"])
def test_reads_and_writes_of_the_disk_are_counted_for_each_queue(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, body_bytes: int
) -> None:
    """Once for each message, where its body is: in the index or in the message store."""
    monkeypatch.setattr("acceptance.test_paging.BODY_BYTES", body_bytes)
    count = 2_000
    for queue in ("lazy", "default"):
        broker.declare(queue, **{"x-queue-mode": queue})
        broker.publish(queue, 0, count)
    eventually(lambda: broker.figures("lazy")["messages_ram"] == 0, WITHIN_S)
    eventually(lambda: disk_counts(broker, "lazy") == (0, count), WITHIN_S)
    eventually(lambda: disk_counts(broker, "default") == (0, count), WITHIN_S)
    assert broker.consume("lazy", count) == list(range(count))
    assert broker.consume("default", count) == list(range(count))
    assert disk_counts(broker, "lazy") == (count, count)
    assert disk_counts(broker, "default") == (0, count)
    node = broker.control.node
    figures = broker.control.on_loop(lambda: node.statistics.of_queue(broker.queue("lazy")))
    assert (figures["disk_reads"], figures["disk_writes"]) == (count, count)
    totals = broker.control.on_loop(node.statistics.totals)
    assert (totals["disk_reads"], totals["disk_writes"]) == (count, 2 * count)


def disk_counts(broker: Broker, queue: str) -> tuple[int, int]:
    counts = broker.control.on_loop(broker.queue(queue).backing.disk_counts)
    assert isinstance(counts, tuple)
    return counts
