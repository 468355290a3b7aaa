"""Fixtures for tests that talk to a running broker over TCP.

By default a broker is started for each folder of tests; `WARREN_TEST_BROKER=host:port` points the
tests at one that already runs, which is how they are checked against a reference broker.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from acceptance.raw_client import WAIT_S, Login, RawClient
from broker_process import Address, BrokerProcess

Connect = Callable[..., BlockingConnection]
ConnectRaw = Callable[..., RawClient]


class Names:
    """Names nobody else uses; whatever was declared under them is deleted when the test ends."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self._prefix = f"t-{uuid.uuid4().hex[:8]}"

    def __call__(self, role: str) -> str:
        name = f"{self._prefix}-{role}"
        self.given.append(name)
        return name


def connection_parameters(address: Address, **options: object) -> pika.ConnectionParameters:
    patience = {"socket_timeout": WAIT_S, "stack_timeout": 2 * WAIT_S}
    settings: dict[str, object] = {"heartbeat": 0, **patience, **options}
    return pika.ConnectionParameters(address.host, address.port, **settings)


@pytest.fixture(scope="session")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | None]:
    """The broker started for these tests, or None if they were pointed at another."""
    if "WARREN_TEST_BROKER" in os.environ:
        yield None
        return
    process = BrokerProcess(tmp_path_factory.mktemp("broker"))
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="session")
def broker(own_broker: BrokerProcess | None) -> Address:
    if own_broker is not None:
        return own_broker.address
    host, _, port = os.environ["WARREN_TEST_BROKER"].rpartition(":")
    return Address(host, int(port))


@pytest.fixture
def names(broker: Address) -> Iterator[Names]:
    names = Names()
    yield names
    if not names.given:
        return
    with RawClient(broker).open() as janitor:
        for name in names.given:
            janitor.call(1, "queue.delete", queue=name)
            janitor.call(1, "exchange.delete", exchange=name)


@pytest.fixture
def connect(names: Names, broker: Address) -> Iterator[Connect]:
    """Opens pika connections and closes them before the names are cleaned up."""
    opened: list[BlockingConnection] = []

    def connect(**options: object) -> BlockingConnection:
        opened.append(pika.BlockingConnection(connection_parameters(broker, **options)))
        return opened[-1]

    yield connect
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    return connect().channel()


@pytest.fixture
def raw(names: Names, broker: Address) -> Iterator[ConnectRaw]:
    """Opens raw clients: logged in, with channel 1 open, unless told otherwise."""
    opened: list[RawClient] = []

    def connect(login: Login | None = None, channels: int = 1, opened_up: bool = True) -> RawClient:
        client = RawClient(broker)
        opened.append(client)
        return client.open(login, channels) if opened_up else client

    yield connect
    for client in opened:
        client.drop()


__all__ = [
    "Connect", "ConnectRaw", "Names", "broker", "channel", "connect", "connection_parameters",
    "names", "own_broker", "raw",
]  # fmt: skip
