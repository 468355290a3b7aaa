"""Brokers with auth backends, and the servers that these ask."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPConnectionError

from acceptance.management_client import Api
from auth_backends.http_service import AuthService
from broker_process import Address, BrokerProcess

SEEN_WITHIN_S = 60.0


class BackedBroker(BrokerProcess):
    """A broker whose users others know."""

    def connect(self, user: str, password: str, vhost: str = "/") -> BlockingConnection:
        credentials = pika.PlainCredentials(user, password)
        return BlockingConnection(
            pika.ConnectionParameters(
                self.address.host,
                self.address.port,
                vhost,
                credentials,
                heartbeat=0,
                socket_timeout=30,
                stack_timeout=60,
                blocked_connection_timeout=60,
            )
        )

    def refusal(self, user: str, password: str) -> str:
        """Return the words with which a connection is refused."""
        with pytest.raises(AMQPConnectionError) as caught:
            self.connect(user, password)
        return str(caught.value)

    def api(self, user: str = "guest", password: str = "guest") -> Api:
        return Api(Address("127.0.0.1", self.http_port), user, password)

    def await_line(self, *parts: str) -> str:
        """Return the first line of the log with all of these in it."""
        deadline = time.monotonic() + SEEN_WITHIN_S
        while time.monotonic() < deadline:
            for line in self.log().splitlines():
                if all(part in line for part in parts):
                    return line
            time.sleep(0.05)
        raise AssertionError(f"no line with {parts} in:\n{self.log()}")


Start = Callable[[str], BackedBroker]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start brokers with a configuration each; they end with the module."""
    with contextlib.ExitStack() as ends:

        def start(config: str) -> BackedBroker:
            directory: Path = tmp_path_factory.mktemp("backed")
            broker = BackedBroker(directory, config)
            broker.start()
            ends.callback(broker.stop)
            return broker

        yield start


@pytest.fixture(scope="module")
def service() -> Iterator[AuthService]:
    service = AuthService()
    yield service
    with contextlib.suppress(OSError):
        service.stop()
