"""What is still there when the broker comes back, after a clean stop and after SIGKILL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptance.raw_client import RawClient
from broker_process import BrokerProcess

Restart = Callable[[BrokerProcess], None]


def clean_restart(process: BrokerProcess) -> None:
    process.restart()


def crash(process: BrokerProcess) -> None:
    process.kill()
    process.start()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may stop and start."""
    process = BrokerProcess(tmp_path)
    process.start()
    yield process
    process.stop()


def queue_exists(client: RawClient, channel: int, queue: str) -> bool:
    """Opens the channel for the question, since a no closes it."""
    client.call(channel, "channel.open")
    client.send(channel, "queue.declare", queue=queue, passive=True)
    answer = client.receive().payload[:4]
    return answer == b"\x00\x32\x00\x0b"


def exchange_exists(client: RawClient, channel: int, exchange: str) -> bool:
    client.call(channel, "channel.open")
    client.send(channel, "exchange.declare", exchange=exchange, passive=True)
    answer = client.receive().payload[:4]
    return answer == b"\x00\x28\x00\x0b"


def declare_topology(client: RawClient) -> None:
    """A durable and a transient queue and exchange, and bindings between all of them."""
    for kind, durable in (("durable", True), ("transient", False)):
        client.call(1, "queue.declare", queue=f"{kind}-queue", durable=durable)
        client.call(
            1, "exchange.declare", exchange=f"{kind}-exchange", type="direct", durable=durable
        )
    for exchange in ("durable-exchange", "transient-exchange"):
        for queue in ("durable-queue", "transient-queue"):
            client.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key="key")
    client.call(
        1, "exchange.bind", destination="durable-exchange", source="amq.topic", routing_key="#"
    )


@pytest.mark.parametrize("restart", [clean_restart, crash])
def test_durable_topology_survives_a_restart(mortal: BrokerProcess, restart: Restart) -> None:
    """T174: durable queue, exchange and bindings are there and work; transient ones are gone."""
    with RawClient(mortal.address).open() as client:
        declare_topology(client)
    restart(mortal)
    with RawClient(mortal.address).open() as client:
        assert queue_exists(client, 2, "durable-queue")
        assert exchange_exists(client, 3, "durable-exchange")
        assert not queue_exists(client, 4, "transient-queue")
        assert not exchange_exists(client, 5, "transient-exchange")
        for exchange in ("durable-exchange", "amq.topic"):
            client.publish(1, b"routed", exchange=exchange, routing_key="key")
            message = client.get(1, "durable-queue")
            assert message is not None
            assert message.body == b"routed"


def test_arguments_survive_a_restart(mortal: BrokerProcess) -> None:
    """T174: a durable queue comes back with its arguments, in force and compared."""
    arguments = {"x-max-length": 1, "x-unknown": [1, {"two": b"\x00"}]}
    with RawClient(mortal.address).open() as client:
        client.call(1, "queue.declare", queue="limited", durable=True, arguments=arguments)
    mortal.restart()
    with RawClient(mortal.address).open(channels=2) as client:
        client.call(1, "queue.declare", queue="limited", durable=True, arguments=arguments)
        for body in (b"first", b"second"):
            client.publish(1, body, routing_key="limited")
        message = client.get(1, "limited")
        assert message is not None
        assert (message.body, message.method.message_count) == (b"second", 0)
        client.send(2, "queue.declare", queue="limited", durable=True)
        client.expect_channel_close(2, 406)


def test_an_exclusive_queue_does_not_survive_a_restart(mortal: BrokerProcess) -> None:
    """T175: not even one that was declared durable."""
    with RawClient(mortal.address).open() as client:
        client.call(1, "queue.declare", queue="exclusive", durable=True, exclusive=True)
        mortal.restart()
    with RawClient(mortal.address).open() as client:
        assert not queue_exists(client, 2, "exclusive")


def test_deleted_topology_stays_deleted(mortal: BrokerProcess) -> None:
    """T174: a deletion is as durable as a declaration."""
    with RawClient(mortal.address).open() as client:
        declare_topology(client)
        client.call(1, "queue.delete", queue="durable-queue")
        client.call(1, "exchange.delete", exchange="durable-exchange")
    crash(mortal)
    with RawClient(mortal.address).open() as client:
        assert not queue_exists(client, 2, "durable-queue")
        assert not exchange_exists(client, 3, "durable-exchange")


def test_a_clean_stop_tells_its_clients(mortal: BrokerProcess) -> None:
    """T174: connections are closed with 320 when the broker is asked to stop."""
    with RawClient(mortal.address).open() as client:
        mortal.stop()
        close = client.expect(0, "connection.close")
        assert close.reply_code == 320
        assert close.reply_text == (
            "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
        )
    mortal.start()
