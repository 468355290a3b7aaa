"""What every test here may ask for: a broker, clients, a seed, and an eye on the broker's log."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

import pytest

from acceptance.raw_client import RawClient
from broker_process import Address, BrokerProcess
from chaos.bystander import Bystander, undisturbed
from live_broker import broker, channel, connect, names, own_broker, raw

COMPLAINT = re.compile(r"\[(warning|error|critical)\]")
CountComplaints = Callable[[RawClient], int]


@pytest.fixture
def chance() -> random.Random:
    """The same in every run; CHAOS_SEED tries others."""
    return random.Random(int(os.environ.get("CHAOS_SEED", "1")))


@pytest.fixture(scope="module")
def bystander(broker: Address, own_broker: BrokerProcess | None) -> Iterator[Bystander]:
    bystander = Bystander(broker, own_broker.pid if own_broker else None)
    yield bystander
    bystander.stop()


@pytest.fixture(autouse=True)
def calm(bystander: Bystander, own_broker: BrokerProcess | None) -> Iterator[None]:
    """Each test runs beside a bystander, and none may make the broker trip over itself."""
    before = len(own_broker.log()) if own_broker else 0
    with undisturbed(bystander):
        yield
    if own_broker:
        log = own_broker.log()[before:]
        assert "Traceback" not in log, log


def peer_of(client: RawClient) -> str:
    host, port = client.socket.getsockname()[:2]
    return f"peer={host}:{port} "


@pytest.fixture
def complaints(own_broker: BrokerProcess | None) -> CountComplaints:
    """How many lines of warning or worse were logged about a client since the test began: others
    had its port before."""
    before = len(own_broker.log()) if own_broker else 0

    def complaints(client: RawClient) -> int:
        if own_broker is None:
            return 1  # another broker's log is not ours to read
        peer = peer_of(client)
        lines = own_broker.log()[before:].splitlines()
        return sum(1 for line in lines if peer in line and COMPLAINT.search(line))

    return complaints


__all__ = [
    "CountComplaints", "broker", "bystander", "calm", "chance", "channel", "complaints",
    "connect", "names", "own_broker", "raw",
]  # fmt: skip
