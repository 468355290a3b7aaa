"""A backlog that is larger than the memory the broker may have."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acceptance.raw_client import RawClient
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.mail import PERSISTENT_BLOCK, client_of, numbered, publish_frames, ready

MIB = 1_048_576
LIMIT_MIB = 160
COUNT, BODY_BYTES = 200_000, 1_000
PIECE = 2_000
WITHIN_S = 250.0
TRANSIENT_BLOCK = b"\x10\x00\x01"


class Peak:
    """The most memory that a broker has held."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def watched(broker: BrokerProcess) -> Iterator[Peak]:
    peak, is_over = Peak(), threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            peak.bytes = max(peak.bytes, broker.resident_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield peak
    is_over.set()
    watcher.join()


@pytest.mark.warren_only
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["default", "lazy"])
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "non-durable"])
def test_a_backlog_beyond_the_limit_stays_below_it_and_comes_in_order(
    make_broker: MakeBroker, durable: bool, mode: str
) -> None:
    """From a publisher that waits for nothing; without the alarm ever going off."""
    broker = make_broker(f"vm_memory_high_watermark.absolute = {LIMIT_MIB}MiB\n")
    broker.start()
    with watched(broker) as peak:
        with client_of(broker) as client:
            client.socket.settimeout(WITHIN_S)
            arguments = {"x-queue-mode": mode}
            client.call(1, "queue.declare", queue="q", durable=durable, arguments=arguments)
            fill(client, PERSISTENT_BLOCK if durable else TRANSIENT_BLOCK)
            await_all(client)
        with client_of(broker) as client:
            client.call(1, "basic.consume", queue="q", no_ack=True)
            for number in range(COUNT):
                body = client.expect_content(1, "basic.deliver").body
                assert body.startswith(b"%08d-" % number), f"at {number}"
    assert peak.bytes < LIMIT_MIB * MIB
    assert "alarm set" not in broker.log()


def fill(client: RawClient, properties: bytes) -> None:
    for start in range(0, COUNT, PIECE):
        bodies = numbered(PIECE, BODY_BYTES, start)
        client.send_bytes(b"".join(publish_frames(b, properties, routing_key="q") for b in bodies))


def await_all(client: RawClient) -> None:
    deadline = time.monotonic() + WITHIN_S
    while ready(client, "q") < COUNT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
