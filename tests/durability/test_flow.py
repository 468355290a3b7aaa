"""A disk that is slow, under a publisher that is not: who waits for whom can be seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.management_client import Api
from acceptance.raw_client import RawClient
from broker_process import Address, BrokerProcess
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, declare, publish_frames, ready

Faulty = tuple[BrokerProcess, DiskFaults]
MIB = 1_048_576
SYNC_MS = 1_500
SMALL, LARGE = 1_000, 20_000
WITHIN_S = 60.0
WATCHED_S = 7.0


class Seen:
    """States, as the management API shows them."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._api = Api(Address("127.0.0.1", broker.http_port))

    def publisher(self) -> dict[str, Any]:
        """The connection that is or was held up, if there is one; otherwise any."""
        connections = self._api.get("connections").body
        return max(connections, key=lambda shown: bool(shown["state"] == "flow"))

    def states(self) -> tuple[str, set[str], str]:
        channels = {shown["state"] for shown in self._api.get("channels").body}
        queue = self._api.get("queues", "/", "q").body["state"]
        return self.publisher()["state"], channels, queue


@contextmanager
def sending(client: RawClient, data: bytes) -> Iterator[threading.Thread]:
    client.socket.settimeout(WITHIN_S)
    sender = threading.Thread(target=client.send_bytes, args=(data,))
    sender.start()
    yield sender
    sender.join()


@pytest.mark.warren_only
@pytest.mark.parametrize(
    ("body_bytes", "total_bytes", "queue_state", "bottleneck"),
    [(SMALL, 96 * MIB, "running", "the queues"), (LARGE, 192 * MIB, "flow", "the message store")],
    ids=["small messages", "large messages"],
)
def test_s23_flow_shows_while_the_disk_is_slow_and_is_gone_a_while_later(
    faulty: Faulty, body_bytes: int, total_bytes: int, queue_state: str, bottleneck: str
) -> None:
    broker, faults = faulty
    broker.start()
    seen = Seen(broker)
    count = total_bytes // body_bytes
    frames = publish_frames(bytes(body_bytes), PERSISTENT_BLOCK, routing_key="q") * count
    with client_of(broker) as client, client_of(broker) as onlooker:
        declare(client, "q")
        assert seen.states() == ("running", {"running"}, "running")
        faults.slow_sync(SYNC_MS)
        with sending(client, frames) as sender:
            expected = ("flow", {"running", "flow"}, queue_state)
            eventually(lambda: seen.states() == expected, WITHIN_S)
            eventually(lambda: bottleneck in seen.publisher()["bottleneck"], WITHIN_S)
            assert sender.is_alive(), "the publisher has to wait"
            faults.rule()
        eventually(lambda: ready(onlooker, "q") == count, WITHIN_S)
        eventually(lambda: seen.states()[1:] == ({"running"}, "running"), WITHIN_S)
        eventually(lambda: seen.states()[0] == "running", WITHIN_S)
        assert seen.publisher()["bottleneck"] == ""


@pytest.mark.warren_only
def test_s23_memory_is_bounded_while_the_disk_is_slow(faulty: Faulty) -> None:
    """The publisher is ahead of the disk by no more than the credit."""
    broker, faults = faulty
    broker.start()
    frames = publish_frames(bytes(SMALL), PERSISTENT_BLOCK, routing_key="q") * 96_000
    with client_of(broker) as client:
        declare(client, "q", **{"x-queue-mode": "lazy"})
        before = broker.resident_bytes()
        faults.slow_sync(SYNC_MS)
        most = 0
        with sending(client, frames) as sender:
            deadline = time.monotonic() + WATCHED_S
            while sender.is_alive() and time.monotonic() < deadline:
                most = max(most, broker.resident_bytes())
                time.sleep(0.05)
            faults.rule()
        assert most - before < 100 * MIB
