"""Alarms for memory and disk: who is held, who goes on, and how limits are set at run time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from acceptance.actions import eventually
from acceptance.control import Control
from acceptance.management_client import Api
from acceptance.raw_client import ConnectionEnded, Login, RawClient
from broker_process import BrokerProcess
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster
from cluster.nodes import eventually as cluster_eventually
from cluster.test_alarms import Watched, alarms_at
from live_broker import ConnectRaw, Names
from manual_clock import ManualClock
from warren.flow.alarms import AlarmBoard
from warren.flow.disk import (
    CHECK_INTERVAL_MS_MAX,
    CHECK_INTERVAL_MS_MIN,
    RETRIES_MAX,
    DiskMonitor,
)
from warren.flow.units import Absolute
from warren.server import machine

GIB = 1_073_741_824
HEARTBEAT_S = 1
SILENCE_S = 4.0


@pytest.fixture
def limits(control: Control) -> Iterator[Control]:
    """warrenctl; the limits are as they were in the end."""
    yield control
    control.ok("set_vm_memory_high_watermark 0.4")
    control.ok("set_disk_free_limit 50MB")


@pytest.fixture
def publisher(raw: ConnectRaw, names: Names) -> tuple[RawClient, str]:
    """Confirms on channel 1; with a queue."""
    client, queue = raw(channels=2), names("q")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "confirm.select")
    return client, queue


def node_of(api: Api) -> dict[str, object]:
    shown: dict[str, object] = api.must(api.get("nodes"))[0]
    return shown


def test_c109_defaults(limits: Control, api: Api) -> None:
    """The memory limit is 0.4 of the memory, and 50 MB of disk have to be free."""
    shown, total = node_of(api), machine.memory_total()
    assert total is not None
    assert shown["mem_limit"] == int(0.4 * total)
    assert shown["disk_free_limit"] == 50_000_000


def test_c110_held(limits: Control, publisher: tuple[RawClient, str]) -> None:
    """An alarm holds publishers; they go on when it is over."""
    client, queue = publisher
    limits.ok("set_vm_memory_high_watermark 0")
    client.publish(1, b"held", routing_key=queue)
    client.expect(0, "connection.blocked")
    client.expect_silence(0.5)
    limits.ok("set_vm_memory_high_watermark 0.4")
    client.expect(0, "connection.unblocked")
    client.expect(1, "basic.ack")
    message = client.get(1, queue)
    assert message is not None
    assert message.body == b"held"


def test_c111_states(
    limits: Control, publisher: tuple[RawClient, str], raw: ConnectRaw, api: Api
) -> None:
    """Under an alarm a connection that does not publish is `blocking`, one that does `blocked`."""
    client, queue = publisher
    consumer = raw()
    consumer.call(1, "basic.consume", queue=queue)
    ports = {each.socket.getsockname()[1]: each for each in (client, consumer)}

    def states() -> list[str]:
        shown = {c["peer_port"]: c["state"] for c in api.must(api.get("connections"))}
        return [shown.get(port, "") for port in ports]

    eventually(lambda: states() == ["running", "running"])
    limits.ok("set_vm_memory_high_watermark 0")
    eventually(lambda: states() == ["blocking", "blocking"])
    client.publish(1, b"held", routing_key=queue)
    eventually(lambda: states() == ["blocked", "blocking"])


def test_c112_consumers(limits: Control, publisher: tuple[RawClient, str], raw: ConnectRaw) -> None:
    """Consumers go on under an alarm."""
    client, queue = publisher
    for number in range(20):
        client.publish(2, b"%d" % number, routing_key=queue)
    client.call(2, "queue.declare", queue=queue, passive=True)
    limits.ok("set_vm_memory_high_watermark 0")
    consumer = raw()
    consumer.call(1, "basic.consume", queue=queue)
    for number in range(20):
        delivery = consumer.expect_content(1, "basic.deliver")
        assert delivery.body == b"%d" % number
        consumer.send(1, "basic.ack", delivery_tag=delivery.method.delivery_tag)
    assert consumer.call(1, "queue.declare", queue=queue, passive=True).message_count == 0


def test_c113_notification(limits: Control, publisher: tuple[RawClient, str]) -> None:
    """A client is told by connection.blocked, with the reason, and by connection.unblocked."""
    client, queue = publisher
    for word, value, usual, reason in (
        ("set_vm_memory_high_watermark", "0", "0.4", "low on memory"),
        ("set_disk_free_limit", "900000GB", "50MB", "low on disk"),
    ):
        limits.ok(f"{word} {value}")
        client.publish(2, b"held", routing_key=queue)
        assert client.expect(0, "connection.blocked").reason == reason
        limits.ok(f"{word} {usual}")
        client.expect(0, "connection.unblocked")


def test_c114_heartbeats(limits: Control, raw: ConnectRaw, names: Names) -> None:
    """Heartbeats of a blocked connection are not awaited."""
    queue = names("q")
    blocked, quiet = (raw(Login(heartbeat=HEARTBEAT_S)) for _ in range(2))
    blocked.call(1, "queue.declare", queue=queue)
    limits.ok("set_vm_memory_high_watermark 0")
    blocked.publish(1, b"held", routing_key=queue)
    assert blocked.expect(0, "connection.blocked")
    deadline = time.monotonic() + SILENCE_S
    while time.monotonic() < deadline:  # takes what comes, and says nothing
        blocked.receive()
    limits.ok("set_vm_memory_high_watermark 0.4")
    blocked.expect(0, "connection.unblocked")
    with pytest.raises(ConnectionEnded):
        receive_for_ever(quiet)


def receive_for_ever(client: RawClient) -> None:
    while True:
        client.receive()


def test_c115_whole_cluster(four: MirroredCluster, name: str, open_on: OpenOn) -> None:
    """An alarm of one node holds the publishers of the whole cluster."""
    first, second = four.nodes[:2]
    open_on(first).queue_declare(name)
    publisher = Watched(open_on(first))
    second.control.ok("set_vm_memory_high_watermark 0")
    try:
        cluster_eventually(
            lambda: alarms_at(first) == {(second.name, "memory")}, "the first node knows"
        )
        publisher.publish(name)
        publisher.eventually_told(["low on memory"])
    finally:
        second.control.ok("set_vm_memory_high_watermark 0.4")
    publisher.eventually_told(["low on memory", "unblocked"])


def test_c116_watermark_at_run_time(limits: Control, api: Api, own_broker: BrokerProcess) -> None:
    """set_vm_memory_high_watermark sets the limit of a running node, which logs it."""
    usual = node_of(api)["mem_limit"]
    for value, expected in (
        ("0", 0), ("absolute 1GiB", GIB), ("absolute 500MB", 500_000_000), ("0.4", usual),
    ):  # fmt: skip
        before = len(own_broker.log())
        limits.ok(f"set_vm_memory_high_watermark {value}")
        assert node_of(api)["mem_limit"] == expected
        assert f"memory high watermark set limit_bytes={expected}" in own_broker.log()[before:]
    for refused in ("2.5", "much"):
        assert limits("set_vm_memory_high_watermark", refused).code in (64, 65)


def is_paging(log: str) -> bool:
    return log.rfind("messages are moved to disk") > log.rfind("messages may stay in memory")


def test_c123_disk_alarm_and_paging(
    limits: Control, own_broker: BrokerProcess, raw: ConnectRaw, names: Names
) -> None:
    """The disk alarm also stops the paging of messages to the disk."""
    eventually(lambda: not is_paging(own_broker.log()))  # as limits of tests before made it
    before = len(own_broker.log())
    client, queue = raw(), names("q")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, b"m", routing_key=queue)
    limits.ok("set_vm_memory_high_watermark absolute 1MB")
    eventually(lambda: "messages are moved to disk" in own_broker.log()[before:])
    limits.ok("set_disk_free_limit 900000GB")
    eventually(
        lambda: (
            'messages may stay in memory reason="free disk space is insufficient"'
            in own_broker.log()[before:]
        )
    )


class Disk:
    """A disk that says how much is free, or fails."""

    def __init__(self, free_bytes: int | None) -> None:
        self.free_bytes = free_bytes
        self.monitor = DiskMonitor(AlarmBoard(ManualClock()), "n", self.read)
        self.monitor.set_limit(Absolute(50_000_000), 0)

    def read(self) -> int:
        if self.free_bytes is None:
            raise OSError("this system does not say")
        return self.free_bytes


def test_c124_disk_checks() -> None:
    """Free disk space is looked at every 10 s, and up to 10 times a second near the limit."""
    disk = Disk(free_bytes=100 * GIB)
    intervals = []
    for free in (100 * GIB, GIB, 250_000_000, 50_000_001):
        disk.free_bytes = free
        disk.monitor.check()
        intervals.append(disk.monitor.next_check_ms)
    assert intervals[0] == CHECK_INTERVAL_MS_MAX == 10_000
    assert intervals[-1] == CHECK_INTERVAL_MS_MIN == 100
    assert intervals == sorted(intervals, reverse=True)
    assert not disk.monitor.is_alarmed
    disk.free_bytes = 49_999_999
    disk.monitor.check()
    assert disk.monitor.is_alarmed


def test_c125_unknown_systems() -> None:
    """Free disk space is not watched on a system that does not say how much there is."""
    disk = Disk(free_bytes=None)
    for _ in range(RETRIES_MAX + 1):
        assert not disk.monitor.is_off
        disk.monitor.check()
    assert disk.monitor.is_off
    assert not disk.monitor.is_alarmed
