"""Flow control: publishers that are faster than the broker, and the bottleneck that it names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import RawClient
from broker_process import BrokerProcess
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, declare, publish_frames, ready

MIB = 1_048_576
SYNC_MS = 700
SMALL, LARGE = 1_000, 200_000
NOTED_CREDIT = 200
SAMPLES = 20
RIGHT_SHARE = 0.9
SAMPLE_EVERY_S = 0.1
WITHIN_S = 60.0
BINDINGS = 200
ROW_ONE_WITHIN_S = 4.0
"""Bound for an overloaded loop to be noticed, which takes 2 s; a busy machine takes longer."""

Faulty = tuple[BrokerProcess, DiskFaults]


class Seen:
    """Flow, as the management API shows it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker

    def bottleneck(self) -> str:
        """What holds up a publisher, if there is one that is held up."""
        said = [str(shown["bottleneck"]) for shown in self._broker.ask("/api/connections")]
        return max(said, default="")

    def states(self) -> tuple[set[str], set[str], str]:
        """Of connections, of channels, and of the queue `q`."""
        connections, channels = (
            {str(shown["state"]) for shown in self._broker.ask(f"/api/{kind}")}
            for kind in ("connections", "channels")
        )
        return connections, channels, str(self._broker.ask("/api/queues/%2F/q")["state"])


@contextmanager
def flood(broker: BrokerProcess, frames: bytes) -> Iterator[None]:
    """A publisher that never waits by itself, until this block ends."""
    is_over = threading.Event()

    def send(client: RawClient) -> None:
        with suppress(OSError):
            while not is_over.is_set():
                client.send_bytes(frames)

    with client_of(broker) as client:
        client.socket.settimeout(WITHIN_S)
        sender = threading.Thread(target=send, args=(client,))
        sender.start()
        try:
            yield
        finally:
            is_over.set()
            client.drop()
            sender.join()


def samples(look: Callable[[], str]) -> list[str]:
    """Answers of so many looks at a publisher that is held up."""
    found: list[str] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < SAMPLES and time.monotonic() < deadline:
        if said := look():
            found.append(said)
        time.sleep(SAMPLE_EVERY_S)
    assert len(found) == SAMPLES, found
    return found


def share(found: list[str], expected: str) -> float:
    return sum(expected in said for said in found) / len(found)


@pytest.fixture
def slow(faulty: Faulty) -> Iterator[Faulty]:
    """A broker with a queue `q` on a slow disk."""
    broker, faults = faulty
    broker.start()
    with client_of(broker) as client:
        declare(client, "q", **{"x-max-length": 500_000})
    faults.slow_sync(SYNC_MS)
    yield broker, faults
    faults.rule()


def test_c128_credit(slow: Faulty) -> None:
    """A process grants another a credit of 200 messages, and 50 more at a time."""
    broker, _ = slow
    frames = publish_frames(bytes(SMALL), PERSISTENT_BLOCK, routing_key="q") * 2_000
    with flood(broker, frames), client_of(broker) as onlooker:
        eventually(lambda: "flow" in Seen(broker).states()[1], WITHIN_S)
        # Bytes count here, so far more small messages are under way than that.
        assert ready(onlooker, "q") > 10 * NOTED_CREDIT


def test_c129_states(slow: Faulty) -> None:
    """Connections, channels and queues that are held up show the state `flow`."""
    broker, faults = slow
    seen = Seen(broker)
    frames = publish_frames(bytes(LARGE), PERSISTENT_BLOCK, routing_key="q") * 20
    assert seen.states()[2] == "running"
    with flood(broker, frames):
        eventually(lambda: seen.states() == ({"flow"}, {"flow"}, "flow"), WITHIN_S)
        faults.rule()


def test_c130_row_one(own_broker: BrokerProcess) -> None:
    """If a connection alone is in flow, the channels are the bottleneck."""
    with client_of(own_broker) as client:
        client.call(1, "exchange.declare", exchange="c130", type="topic")
        client.call(1, "queue.declare", queue="c130", arguments={"x-max-length": 10})
        for number in range(BINDINGS):
            key = f"#.{number}.#.b.#"
            client.call(1, "queue.bind", queue="c130", exchange="c130", routing_key=key)
        keys = (".".join(f"{word}" for word in range(start, start + 8)) for start in range(200))
        frames = b"".join(
            publish_frames(b"small", b"\0\0", exchange="c130", routing_key=f"{key}.b")
            for key in keys
        )
        seen = Seen(own_broker)
        with flood(own_broker, frames * 5):
            began = time.monotonic()
            eventually(lambda: seen.bottleneck() != "", WITHIN_S)
            took_s = time.monotonic() - began
            found = samples(seen.bottleneck)
        client.call(1, "queue.delete", queue="c130")
        client.call(1, "exchange.delete", exchange="c130")
    assert share(found, "the channels") >= RIGHT_SHARE, found
    assert took_s < ROW_ONE_WITHIN_S, took_s


def test_c131_row_two(slow: Faulty) -> None:
    """If connection and channel are in flow, the queues are: small persistent messages."""
    broker, _ = slow
    seen = Seen(broker)
    frames = publish_frames(bytes(SMALL), PERSISTENT_BLOCK, routing_key="q") * 2_000
    with flood(broker, frames):
        eventually(lambda: "flow" in seen.states()[1], WITHIN_S)
        found = samples(seen.bottleneck)
    assert share(found, "the queues") >= RIGHT_SHARE, found


def test_c132_row_three(slow: Faulty) -> None:
    """If the queue is in flow, too, the message store is: large persistent messages."""
    broker, _ = slow
    seen = Seen(broker)
    frames = publish_frames(bytes(LARGE), PERSISTENT_BLOCK, routing_key="q") * 20
    with flood(broker, frames), flood(broker, frames):
        eventually(lambda: seen.states()[2] == "flow", WITHIN_S)
        found = samples(seen.bottleneck)
    assert share(found, "the message store") >= RIGHT_SHARE, found
