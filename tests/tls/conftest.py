"""A broker that speaks TLS with AMQP clients and HTTP callers, and certificates to meet it with."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from broker_process import BrokerProcess, free_port
from certificates import Authority, Issued

SEEN_WITHIN_S = 60.0


class TlsBroker(BrokerProcess):
    """Takes clients with certificates of its authority, and without; EXTERNAL for the former."""

    def __init__(self, directory: Path, authority: Authority, more: str = "") -> None:
        self.authority = authority
        self.amqps_port, self.https_port = free_port(), free_port()
        server = authority.issue("server", password="opens the key")
        super().__init__(
            directory,
            f"listeners.ssl.1 = 127.0.0.1:{self.amqps_port}\n"
            f"ssl_options.cacertfile = {authority.cacertfile}\n"
            f"ssl_options.certfile = {server.certfile}\n"
            f"ssl_options.keyfile = {server.keyfile}\n"
            "ssl_options.password = opens the key\n"
            "ssl_options.verify = verify_peer\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
            f"management.ssl.port = {self.https_port}\n"
            "auth_mechanisms.1 = PLAIN\n"
            "auth_mechanisms.2 = EXTERNAL\n"
            "log.connection.level = info\n" + more,
        )

    def context(self, shown: Issued | None = None) -> ssl.SSLContext:
        """A client that trusts the authority, and shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.authority.cacertfile))
        if shown is not None:
            context.load_cert_chain(shown.certfile, shown.keyfile)
        return context

    def parameters(self, context: ssl.SSLContext, **options: object) -> pika.ConnectionParameters:
        settings: dict[str, object] = {"heartbeat": 0, "socket_timeout": 30, **options}
        encryption = pika.SSLOptions(context, "localhost")
        return pika.ConnectionParameters(
            "127.0.0.1", self.amqps_port, ssl_options=encryption, **settings
        )

    def await_line(self, *parts: str) -> str:
        """The first line of the log with all of these in it."""
        deadline = time.monotonic() + SEEN_WITHIN_S
        while time.monotonic() < deadline:
            for line in self.log().splitlines():
                if all(part in line for part in parts):
                    return line
            time.sleep(0.05)
        raise AssertionError(f"no line with {parts} in:\n{self.log()}")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def tls_broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("tls"), authority)
    broker.start()
    yield broker
    broker.stop()


Open = Callable[..., BlockingConnection]


@pytest.fixture
def open_tls(tls_broker: TlsBroker) -> Iterator[Open]:
    """Opens pika connections over TLS, and closes them when the test ends."""
    opened: list[BlockingConnection] = []

    def open_tls(shown: Issued | None = None, **options: object) -> BlockingConnection:
        parameters = tls_broker.parameters(tls_broker.context(shown), **options)
        opened.append(BlockingConnection(parameters))
        return opened[-1]

    yield open_tls
    for connection in opened:
        with contextlib.suppress(pika.exceptions.AMQPError):
            connection.close()
