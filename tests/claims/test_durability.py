"""Durability: which exchanges, queues and messages are there after a stop and after kill -9."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from acceptance.actions import channel_error, eventually, exchange_is_there, is_there
from broker_process import BrokerProcess
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster
from durability.conftest import MakeBroker
from durability.data_files import DataFiles, occurrences
from durability.disk_faults import DiskFaults
from durability.mail import (
    PERSISTENT_BLOCK,
    Confirms,
    Mail,
    bodies,
    client_of,
    declare_in,
    look_once,
    send,
)
from durability.power_cut import Tape, cut_power
from live_broker import Connect, connection_parameters
from warren.metadata.keys import queue_key

TYPES = ("direct", "fanout", "topic", "headers")
TRANSIENT, PERSISTENT = (
    [b"%s%d" % (kind, number) for number in range(10)] for kind in (b"t", b"p")
)
SECRET_BODY = b"nothing of this may be on the disk"
SLOW_MS = 500


class Restarted:
    """A broker that has ended and was started again, with what its client left in it."""

    def __init__(self, broker: BrokerProcess, is_killed: bool) -> None:
        self.broker = broker
        self.is_killed = is_killed
        self.kept: list[Mail] = []
        broker.start()
        owner = self.connect()
        _fill(broker, owner.channel())
        self.traces = occurrences(_message_files(broker), SECRET_BODY)
        if is_killed:
            broker.kill()
        else:
            broker.stop()
        with suppress(pika.exceptions.AMQPError):
            owner.close()
        broker.start()
        self.connection = self.connect()

    def connect(self) -> BlockingConnection:
        return BlockingConnection(connection_parameters(self.broker.address))

    def mails(self) -> list[Mail]:
        """Contents of the queue `kept`, as the first look after the restart found them."""
        self.kept = self.kept or look_once(self.broker, "kept")
        return self.kept


def _fill(broker: BrokerProcess, channel: BlockingChannel) -> None:
    for kind in TYPES:
        channel.exchange_declare(f"durable-{kind}", kind, durable=True)
    channel.exchange_declare("transient", durable=False)
    for queue, options in {
        "durable": {"durable": True},
        "transient": {},
        "temporary": {"durable": True, "auto_delete": True},
        "exclusive": {"durable": True, "exclusive": True},
        "kept": {"durable": True},
    }.items():
        channel.queue_declare(queue, **options)
    channel.queue_bind("durable", "durable-direct", "key")
    channel.confirm_delivery()
    for transient, persistent in zip(TRANSIENT, PERSISTENT, strict=True):
        channel.basic_publish("", "kept", transient, pika.BasicProperties(delivery_mode=1))
        channel.basic_publish("", "kept", persistent, pika.BasicProperties(delivery_mode=2))
    channel.basic_publish("", "exclusive", SECRET_BODY, pika.BasicProperties(delivery_mode=2))


def _message_files(broker: BrokerProcess) -> list[Path]:
    files = DataFiles(broker.data_dir)
    return files.index + files.all_bodies


@pytest.fixture(scope="module", params=["stop", "kill"])
def restarted(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Restarted]:
    directory = tmp_path_factory.mktemp(f"restarted-{request.param}")
    broker = BrokerProcess(directory)
    yield Restarted(broker, request.param == "kill")
    broker.kill()


def test_c001_exchanges(restarted: Restarted) -> None:
    """Durable exchanges of all four types survive a restart."""
    shown = {e["name"]: e["type"] for e in restarted.broker.ask("/api/exchanges/%2F")}
    assert {f"durable-{kind}": kind for kind in TYPES}.items() <= shown.items()


def test_c002_transient_exchanges(restarted: Restarted) -> None:
    """An exchange that is not durable is gone after a restart."""
    assert not exchange_is_there(restarted.connection, "transient")


def test_c003_queues(restarted: Restarted) -> None:
    """A durable queue survives a restart, another one does not."""
    assert is_there(restarted.connection, "durable")
    assert not is_there(restarted.connection, "transient")


def test_c004_bindings(restarted: Restarted) -> None:
    """The binding of a durable exchange and a durable queue survives: publishing goes on."""
    channel = restarted.connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("durable-direct", "key", b"after", mandatory=True)
    assert channel.basic_get("durable", auto_ack=True)[2] == b"after"


def test_c005_attributes(restarted: Restarted) -> None:
    """The attributes of a queue (durable, auto-delete) are kept over a restart."""
    shown = restarted.broker.ask("/api/queues/%2F/temporary")
    assert (shown["durable"], shown["auto_delete"]) == (True, True)


def test_c006_exclusive_queues(connect: Connect) -> None:
    """All channels of the connection that declared an exclusive queue may use it, others not."""
    owner = connect()
    queue = owner.channel().queue_declare("", exclusive=True).method.queue
    other_channel = owner.channel()
    other_channel.basic_publish("", queue, b"mine")
    assert other_channel.basic_get(queue, auto_ack=True)[2] == b"mine"
    with channel_error(405) as refusal:
        connect().channel().basic_get(queue)
    assert "RESOURCE_LOCKED" in refusal.text


def test_c007_exclusive_queues_end(restarted: Restarted) -> None:
    """An exclusive queue ends with its connection, durable or not, and is never on disk."""
    assert restarted.traces == 0
    assert not is_there(restarted.connection, "exclusive")
    owner = restarted.connect()
    owner.channel().queue_declare("again", durable=True, exclusive=True)
    owner.close()
    assert not is_there(restarted.connection, "again")


def test_c008_metadata(restarted: Restarted, four: MirroredCluster, open_on: OpenOn) -> None:
    """Topology is on disk: RabbitMQ has a Mnesia directory for it."""
    assert is_there(restarted.connection, "durable")
    assert (restarted.broker.data_dir / "metadata.sqlite").stat().st_size > 0
    assert not list(restarted.broker.data_dir.rglob("mnesia*"))
    open_on(four.nodes[0]).queue_declare("c008", durable=True)
    assert four.has_in_store(queue_key("/", "c008"))
    assert not list(four.nodes[0].data_dir.glob("metadata.sqlite"))


def test_c009_transient_messages(restarted: Restarted) -> None:
    """Transient messages in a durable queue are lost by a restart."""
    assert set(bodies(restarted.mails())).isdisjoint(TRANSIENT)


def test_c010_persistent_messages(restarted: Restarted) -> None:
    """Messages with delivery mode 2 in a durable queue are kept over a restart, in order."""
    assert bodies(restarted.mails()) == PERSISTENT
    # A stop in good order writes down what was delivered; after a crash nobody knows.
    assert {mail.redelivered for mail in restarted.mails()} == {restarted.is_killed}


def test_c011_confirms(faulty: tuple[BrokerProcess, DiskFaults]) -> None:
    """A persistent message is confirmed only when it is on the disk."""
    broker, faults = faulty
    broker.start()
    declare_in(broker, "q")
    send(broker, [b"while the disk is fast"], "q")
    faults.slow_sync(SLOW_MS)
    with client_of(broker) as client:
        confirms = Confirms(client)
        confirms.publish(b"held", PERSISTENT_BLOCK, routing_key="q")
        client.expect_silence(SLOW_MS / 1_000 * 0.8)
        confirms.wait()
    assert faults.hits("sync")
    assert confirms.acked == {1}


def test_c012_window(make_broker: MakeBroker, tmp_path: Path) -> None:
    """Persistent messages can be lost between being written and being synced, if power fails."""
    broker = make_broker()
    faults = DiskFaults(tmp_path / "faults", broker.data_dir)
    broker.environment = faults.recording
    broker.start()
    declare_in(broker, "q")
    confirmed = [b"confirmed-%d" % number for number in range(20)]
    send(broker, confirmed, "q")
    faults.slow_sync(60_000)
    with client_of(broker) as client:
        confirms = Confirms(client)
        for number in range(20):
            confirms.publish(b"in the window-%d" % number, PERSISTENT_BLOCK, routing_key="q")
        eventually(lambda: bool(faults.hits("sync")))
        client.expect_silence()
        assert confirms.open_count == 20, "nothing of it was confirmed"
    broker.kill()
    faults.clear()
    tape = Tape("/msg_stores/", loses_names=False)
    tape.play(faults.tape)
    assert cut_power(tape, random.Random(12)), "something is lost with the power"
    broker.start()
    there = bodies(look_once(broker, "q"))
    assert there[:20] == confirmed
    assert len(there) < 40
