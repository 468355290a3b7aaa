"""What lies in the data directory: which file a message goes to, and that space comes back.

Files are as the specification of storage describes them; what a file holds is found by looking
for the bytes of the messages, so that nothing here knows their format.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from acceptance.actions import eventually
from acceptance.administration import HttpAdministration, Rule
from acceptance.raw_client import RawClient, encode_properties
from broker_process import BrokerProcess
from durability.conftest import MakeBroker
from durability.data_files import DataFiles, occurrences, queue_directory, size_bytes
from durability.mail import (
    PERSISTENT_BLOCK,
    acknowledge,
    bodies,
    client_of,
    declare,
    declare_in,
    look,
    look_once,
    more_than_a_journal,
    numbered,
    publish_frames,
    ready,
    requeue_all,
    send,
)
from durability.under_test import IS_REFERENCE, crash

MIB = 2**20
EMBED_BELOW = 4096
STORE_FILE_BYTES = 16 * MIB
RECLAIMED_WITHIN_S = 90
# A reference broker takes its time to publish a million.
PATIENCE_S = 300


@pytest.fixture
def files(mortal: BrokerProcess) -> DataFiles:
    return DataFiles(mortal.data_dir)


def marked(size: int) -> tuple[bytes, bytes]:
    """A body of this size, and a piece of it that is nowhere else."""
    mark = uuid.uuid4().hex.encode()
    return (mark + b"." * size)[:size], mark


@pytest.mark.parametrize("headers", [{}, {"x": "y" * 1000}])
@pytest.mark.parametrize("is_embedded", [True, False])
def test_small_messages_go_to_the_index_and_large_ones_to_the_store(
    mortal: BrokerProcess, files: DataFiles, headers: dict[str, str], is_embedded: bool
) -> None:
    """S1: body and properties together decide: below 4096 bytes a message is embedded."""
    declare_in(mortal, "edge")
    properties: dict[str, Any] = {"headers": headers} if headers else {}
    block = encode_properties(delivery_mode=2, **properties)
    body, mark = marked(EMBED_BELOW - len(block) - is_embedded)
    before = size_bytes(files.bodies)
    send(mortal, [body], "edge", **properties)
    assert occurrences(files.bodies, mark) == (not is_embedded)
    assert (occurrences(files.index, mark) > 0) == is_embedded
    assert (size_bytes(files.bodies) == before) == is_embedded


def test_large_headers_go_to_the_store(mortal: BrokerProcess, files: DataFiles) -> None:
    """S1: with a body that would be embedded alone."""
    declare_in(mortal, "edge")
    mark = uuid.uuid4().hex
    send(mortal, [b"small"], "edge", headers={"x": mark + "y" * EMBED_BELOW})
    assert occurrences(files.bodies, mark.encode()) == 1
    assert occurrences(files.index, mark.encode()) == 0


def test_a_large_message_in_five_queues_is_one_body(
    mortal: BrokerProcess, files: DataFiles
) -> None:
    """S2: a mebibyte in five durable queues lies once on the disk, and each queue has it."""
    body, mark = marked(MIB)
    with client_of(mortal) as client:
        for number in range(5):
            declare(client, f"fan-{number}")
            client.call(1, "queue.bind", queue=f"fan-{number}", exchange="amq.fanout")
    send(mortal, [body], exchange="amq.fanout")
    assert occurrences(files.bodies, mark) == 1
    assert occurrences(files.index, mark) == 0
    assert files.total_bytes() < 1.5 * MIB
    for number in range(5):
        assert bodies(look_once(mortal, f"fan-{number}")) == [body]


SMALL_FILES = """
queue_index_embed_msgs_below = 100
msg_store_file_size_limit = 64KiB
warren.journal_file_size_limit = 64KiB
"""


@pytest.mark.warren_only
def test_sizes_of_files_can_be_set_and_changed(make_broker: MakeBroker) -> None:
    """Smaller ones roll sooner, and what they hold is read by a start that wants large ones."""
    broker = make_broker(SMALL_FILES)
    broker.start()
    files = DataFiles(broker.data_dir)
    declare_in(broker, "stored")
    declare_in(broker, "indexed")
    sent = numbered(2000, size=200), numbered(2000, size=80)
    send(broker, sent[0], "stored")
    send(broker, sent[1], "indexed")
    assert len(files.bodies) >= 5
    eventually(lambda: files.segments_of("indexed") != [], RECLAIMED_WITHIN_S)
    broker.kill()
    broker.configure("msg_store_file_size_limit = 16MiB\n")
    broker.start()
    assert bodies(look_once(broker, "stored")) == sent[0]
    assert bodies(look_once(broker, "indexed")) == sent[1]


def test_transient_messages_leave_no_trace(mortal: BrokerProcess, files: DataFiles) -> None:
    """Of small and large ones in a durable queue nothing is written while there is memory."""
    declare_in(mortal, "transient")
    small, small_mark = marked(100)
    large, large_mark = marked(10_000)
    send(mortal, [small, large], "transient", delivery_mode=1)
    for mark in (small_mark, large_mark):
        assert occurrences(files.index + files.bodies, mark) == 0


@pytest.mark.warren_only
def test_an_argument_keeps_a_queue_out_of_a_lazy_policy(
    mortal: BrokerProcess, files: DataFiles
) -> None:
    """S16: a lazy queue writes transient messages, too; one declared as default stays so."""
    declare_in(mortal, "free")
    declare_in(mortal, "fixed", **{"x-queue-mode": "default"})
    admin = HttpAdministration(mortal.address, f"127.0.0.1:{mortal.http_port}")
    admin.set_policy(Rule("/", "lazy", {"queue-mode": "lazy"}))
    free, free_mark = marked(10_000)
    fixed, fixed_mark = marked(10_000)
    send(mortal, [free], "free", delivery_mode=1)
    send(mortal, [fixed], "fixed", delivery_mode=1)
    eventually(lambda: occurrences(files.all_bodies, free_mark) == 1, RECLAIMED_WITHIN_S)
    assert occurrences(files.all_bodies, fixed_mark) == 0
    assert bodies(look_once(mortal, "free")) == [free]
    assert bodies(look_once(mortal, "fixed")) == [fixed]


def test_store_files_end_at_16_mebibytes_and_go_when_they_are_empty(
    mortal: BrokerProcess, files: DataFiles
) -> None:
    """S25: a file exceeds the limit by less than a message; all acknowledged, one is left."""
    declare_in(mortal, "rolling")
    sent = numbered(50, size=MIB)
    for start in range(0, len(sent), 5):  # a full file grows on until the next one is ready
        send(mortal, sent[start : start + 5], "rolling")
    assert len(files.bodies) in {3, 4}
    full = files.bodies[:-1]
    assert all(
        STORE_FILE_BYTES - MIB < size_bytes([p]) < STORE_FILE_BYTES + 1.1 * MIB for p in full
    )
    with client_of(mortal) as client:
        acknowledge(client, look(client, "rolling")[-1], multiple=True)
        assert ready(client, "rolling") == 0
    eventually(lambda: len(files.bodies) <= 1, RECLAIMED_WITHIN_S)


def test_garbage_is_collected(mortal: BrokerProcess, files: DataFiles) -> None:
    """S26: two thirds acknowledged all over: the files shrink, and the rest is as it was."""
    declare_in(mortal, "holes")
    sent = numbered(96, size=MIB)
    send(mortal, sent, "holes")
    before = size_bytes(files.bodies)
    with client_of(mortal) as client:
        for number, mail in enumerate(look(client, "holes")):
            if number % 3:
                acknowledge(client, mail)
        requeue_all(client, "holes", 32)
    eventually(lambda: size_of_existing(files) < 0.6 * before, RECLAIMED_WITHIN_S)
    assert bodies(look_once(mortal, "holes")) == sent[::3]
    crash(mortal)
    assert bodies(look_once(mortal, "holes")) == sent[::3]


def size_of_existing(files: DataFiles) -> int:
    """While files come and go."""
    try:
        return size_bytes(files.bodies)
    except FileNotFoundError:
        return size_of_existing(files)


def flood(client: RawClient, queue: str, count: int, watch: Callable[[], None]) -> None:
    """Many small persistent messages without confirms; processed when this returns."""
    block = publish_frames(b"x" * 100, PERSISTENT_BLOCK, routing_key=queue) * 1000
    client.socket.settimeout(PATIENCE_S)
    for number in range(count // 1000):
        client.send_bytes(block)
        if number % 20 == 0:
            watch()
    client.send(1, "queue.declare", queue=queue, passive=True)
    client.expect(1, "queue.declare-ok", within_s=PATIENCE_S)


@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_short_queue_stays_small_on_disk(mortal: BrokerProcess, files: DataFiles) -> None:
    """S31, rabbitmq-server#1458: a million through a queue of ten never take much space."""
    sizes: list[int] = []
    with client_of(mortal) as client:
        declare(client, "short", **{"x-max-length": 10})
        flood(client, "short", 1_000_000, lambda: sizes.append(files.total_bytes()))
        assert ready(client, "short") == 10
    limit = 512 * MIB if IS_REFERENCE else 64 * MIB
    assert max(sizes) < limit, [size // MIB for size in sizes]
    crash(mortal)
    with client_of(mortal) as client:
        assert ready(client, "short") <= 10


@pytest.mark.timeout(2 * PATIENCE_S)
def test_a_full_queue_is_deleted_quickly(mortal: BrokerProcess, files: DataFiles) -> None:
    """S28: with a hundred thousand messages on their way to the disk; the space comes back."""
    before = files.total_bytes()
    with client_of(mortal) as client:
        declare(client, "doomed")
        flood(client, "doomed", 100_000, lambda: None)
        before_s = mortal.cpu_s()
        client.send(1, "queue.delete", queue="doomed")
        assert client.expect(1, "queue.delete-ok", within_s=PATIENCE_S).message_count == 100_000
        assert mortal.cpu_s() - before_s < 1
    eventually(lambda: files.total_bytes() < before + 2 * STORE_FILE_BYTES, RECLAIMED_WITHIN_S)
    eventually(lambda: files.segments_of("doomed") == [], RECLAIMED_WITHIN_S)


def test_the_directory_is_laid_out_as_before(mortal: BrokerProcess, files: DataFiles) -> None:
    """A vhost's and a queue's directory have RabbitMQ's names, and a deleted queue's goes."""
    declare_in(mortal, "named")
    send(mortal, more_than_a_journal(), "named")
    assert (files.directory / ".vhost").read_text().strip() == "/"
    directory = queue_directory(mortal.data_dir, "named")
    eventually((directory / ".queue_name").exists)
    assert "named" in (directory / ".queue_name").read_text()
    with client_of(mortal) as client:
        client.call(1, "queue.delete", queue="named")
    eventually(lambda: not directory.exists(), RECLAIMED_WITHIN_S)
