"""The bottleneck is named right: nine of ten looks at a broker under a real load say the same.

The rows are those of `flow/states.py`. Publishers send as fast as the broker takes it, and wait for
nothing. The disk of the last two rows is slowed down a little, so that it is slower than the
processors, however fast this machine's is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from acceptance.actions import eventually
from acceptance.management_client import Api
from acceptance.raw_client import RawClient
from broker_process import Address, BrokerProcess
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, publish_frames

Faulty = tuple[BrokerProcess, DiskFaults]
TRANSIENT_BLOCK: Final = b"\x10\x00\x01"
BINDINGS: Final = 201
KEYS: Final = 2_000
PUBLISHERS: Final = 4
SENT_BYTES: Final = 1_000_000
SYNC_MS: Final = 150
NOTICED_WITHIN_S: Final = 2.0
IN_FLOW_WITHIN_S: Final = 60.0
LOOKS: Final = 10
RIGHT_MIN: Final = 9
BETWEEN_LOOKS_S: Final = 0.3


class Look(NamedTuple):
    connection: str
    channel: str
    queue: str
    bottleneck: str


CHANNELS: Final = Look("flow", "running", "running", "the channels")
QUEUES: Final = Look("flow", "flow", "running", "the queues")
STORE: Final = Look("flow", "flow", "flow", "the message store")


def look(api: Api, port: int) -> Look:
    """At the publisher with this port, its channel and the queue."""
    (connection,) = [c for c in api.get("connections").body if c["peer_port"] == port]
    channels = api.get("channels").body
    (channel,) = [c for c in channels if c["connection_details"]["peer_port"] == port]
    queue = api.get("queues", "/", "q").body
    bottleneck = connection["bottleneck"].partition(":")[0]
    return Look(connection["state"], channel["state"], queue["state"], bottleneck)


def looks(api: Api, port: int) -> list[Look]:
    seen = []
    for _ in range(LOOKS):
        seen.append(look(api, port))
        time.sleep(BETWEEN_LOOKS_S)
    return seen


@contextmanager
def publishing(broker: BrokerProcess, frames: bytes, publishers: int) -> Iterator[int]:
    """Send these over and over; gives the port of one of the publishers."""
    is_over = threading.Event()
    clients = [RawClient(broker.address).open() for _ in range(publishers)]

    def send(client: RawClient) -> None:
        client.socket.settimeout(IN_FLOW_WITHIN_S)
        try:
            while not is_over.is_set():
                client.send_bytes(frames)
        except OSError:  # dropped, in the end
            assert is_over.is_set()

    senders = [threading.Thread(target=send, args=(client,)) for client in clients]
    for sender in senders:
        sender.start()
    try:
        yield clients[0].socket.getsockname()[1]
    finally:
        is_over.set()
        broker.kill()
        for sender in senders:
            sender.join()


@pytest.mark.warren_only
def test_c130_small_transient_messages_with_much_routing_name_the_channels_within_two_seconds(
    mortal: BrokerProcess,
) -> None:
    api = Api(Address("127.0.0.1", mortal.http_port))
    with client_of(mortal) as client:
        client.call(1, "queue.declare", queue="q", arguments={"x-max-length": 100})
        client.call(1, "exchange.declare", exchange="t", type="topic")
        for number in range(BINDINGS):
            client.call(1, "queue.bind", queue="q", exchange="t", routing_key=f"a.*.{number}.#")
    frames = b"".join(
        publish_frames(b"small", TRANSIENT_BLOCK, exchange="t", routing_key=f"a.{key}.{key}.x")
        for key in range(KEYS)
    )
    with publishing(mortal, frames, 1) as port:
        time.sleep(NOTICED_WITHIN_S)
        seen = looks(api, port)
    assert seen.count(CHANNELS) >= RIGHT_MIN, seen


@pytest.mark.warren_only
@pytest.mark.parametrize(
    ("body_bytes", "expected"),
    [(200, QUEUES), (1_000, QUEUES), (20_000, STORE), (500_000, STORE)],
    ids=["200 B", "1 kB", "20 kB", "500 kB"],
)
def test_c131_c132_persistent_messages_name_the_queues_or_the_store_by_their_size(
    faulty: Faulty, body_bytes: int, expected: Look
) -> None:
    broker, faults = faulty
    broker.start()
    api = Api(Address("127.0.0.1", broker.http_port))
    with client_of(broker) as client:
        client.call(1, "queue.declare", queue="q", durable=True)
    one = publish_frames(bytes(body_bytes), PERSISTENT_BLOCK, routing_key="q")
    faults.slow_sync(SYNC_MS)
    with publishing(broker, one * max(1, SENT_BYTES // len(one)), PUBLISHERS) as port:
        eventually(lambda: look(api, port).connection == "flow", IN_FLOW_WITHIN_S)
        seen = looks(api, port)
    assert seen.count(expected) >= RIGHT_MIN, seen
