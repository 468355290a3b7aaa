"""Storage: files of messages and indexes, when they are written, synced, deleted and compacted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.actions import eventually
from acceptance.raw_client import RawClient
from broker_process import BrokerProcess
from durability.data_files import DataFiles, occurrences, queue_directory, size_bytes
from durability.disk_faults import DiskFaults
from durability.mail import (
    PERSISTENT_BLOCK,
    Confirms,
    acknowledge,
    bodies,
    client_of,
    declare_in,
    look,
    look_once,
    numbered,
    requeue_all,
    send,
)

MIB = 1_048_576
KIB = 1_024
# Files that are soon full, so that little has to be written to see many.
SMALL_FILES = f"""
queue_index_embed_msgs_below = 100
msg_store_file_size_limit = {MIB}
warren.journal_file_size_limit = 64KiB
"""
SEGMENT_ENTRIES = 2_048
NOTED_SEGMENT_ENTRIES = 16_384
SYNC_AFTER_S = 0.025
BATCH = 2_000
GARBAGE_STAYS_S = 1.5
WITHIN_S = 60.0
LOOK_S = 0.25


class Stored:
    """A broker, its files, and the rules of its disk."""

    def __init__(self, directory: Path, config: str = "") -> None:
        self.broker = BrokerProcess(directory, config)
        self.faults = DiskFaults(directory / "faults", self.broker.data_dir)
        self.broker.environment = self.faults.environment
        self.broker.start()
        self.files = DataFiles(self.broker.data_dir)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A broker as it comes, with 40 MiB in the message store."""
    stored = Stored(tmp_path_factory.mktemp("usual"))
    declare_in(stored.broker, "large")
    send(stored.broker, numbered(40, size=MIB), "large")
    yield stored
    stored.broker.kill()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    """A broker whose files are small, with a queue of 5000 small messages."""
    stored = Stored(tmp_path_factory.mktemp("small"), SMALL_FILES)
    declare_in(stored.broker, "indexed")
    send(stored.broker, numbered(5_000, size=60), "indexed")
    yield stored
    stored.broker.kill()


@pytest.fixture
def client(usual: Stored) -> Iterator[RawClient]:
    with client_of(usual.broker) as client:
        yield client


def test_c081_write_buffer(usual: Stored, client: RawClient) -> None:
    """What is written is gathered in a buffer of 1 MiB."""
    declare_in(usual.broker, "c081")
    confirms = Confirms(client)
    before = len(usual.faults.hits("sync"))
    usual.faults.slow_sync(700)
    confirms.publish(b"first", PERSISTENT_BLOCK, routing_key="c081")
    eventually(lambda: len(usual.faults.hits("sync")) > before)
    for body in numbered(BATCH, size=1_000):  # more than 1 MiB, while the disk is busy
        confirms.publish(body, PERSISTENT_BLOCK, routing_key="c081")
    confirms.wait()
    usual.faults.rule()
    assert confirms.acked == set(range(1, BATCH + 2))
    assert len(usual.faults.hits("sync")) - before <= 8


def test_c082_sync_interval(usual: Stored, client: RawClient) -> None:
    """What is in the buffer is synced after 25 ms."""
    declare_in(usual.broker, "c082")
    confirms = Confirms(client)
    took = []
    for number in range(40):
        began = time.monotonic()
        confirms.publish(b"%d" % number, PERSISTENT_BLOCK, routing_key="c082")
        confirms.wait()
        took.append(time.monotonic() - began)
    assert min(took) < SYNC_AFTER_S


def test_c083_sync_at_once(usual: Stored, client: RawClient) -> None:
    """A message is synced at once if nothing else comes."""
    declare_in(usual.broker, "c083")
    confirms = Confirms(client)
    usual.faults.watch()
    confirms.publish(b"alone", PERSISTENT_BLOCK, routing_key="c083")
    confirms.wait()
    steps = [line.split()[0] for line in usual.faults.hits()]
    usual.faults.rule()
    assert "write" in steps
    assert "sync" in steps[steps.index("write") :]


def test_c084_store_files(usual: Stored) -> None:
    """Bodies are in msg_store_persistent/N.rdq, 16 MiB each; the next file has the next number."""
    files = usual.files.bodies
    assert [path.name for path in files] == ["0.rdq", "1.rdq", "2.rdq"]
    assert {path.parent.name for path in files} == {"msg_store_persistent"}
    for full in files[:-1]:
        assert 15 * MIB < full.stat().st_size <= 17.1 * MIB


def test_c085_first_number(usual: Stored) -> None:
    """Files of the message store are numbered from 0 (from 1, another note says)."""
    assert usual.files.bodies[0].name == "0.rdq"


def test_c086_record_format(usual: Stored) -> None:
    """A record in a file of the message store is <<Size:64, MsgId:16/binary, MsgBody>>."""
    data = usual.files.bodies[0].read_bytes()
    assert data[:4] == b"WRDQ", "a format of its own, with checksums"
    size = int.from_bytes(data[:8])
    assert size > len(data), "RabbitMQ would not find a record here"
    assert bodies(look_once(usual.broker, "large")) == numbered(40, size=MIB)


def test_c087_two_stores(usual: Stored) -> None:
    """All queues share two stores, msg_store_persistent and msg_store_transient."""
    marks = {}
    for queue, mode in (("c087-a", 2), ("c087-b", 2), ("c087-c", 1)):
        declare_in(usual.broker, queue, **{"x-queue-mode": "lazy"})
        marks[queue] = b"%s marks %s" % (queue.encode(), queue[::-1].encode())
        send(usual.broker, [marks[queue] * 500], queue, delivery_mode=mode)
    transient = lambda: [  # noqa: E731
        p for p in usual.files.all_bodies if p.parent.name == "msg_store_transient"
    ]
    for queue in ("c087-a", "c087-b"):
        assert occurrences(usual.files.bodies, marks[queue])
    eventually(lambda: occurrences(transient(), marks["c087-c"]) > 0, WITHIN_S)


def test_c088_index(small: Stored) -> None:
    """Each queue has an index of its own: where its messages are, which are delivered and acked."""
    eventually(lambda: small.files.segments_of("indexed") != [], WITHIN_S)
    directory = queue_directory(small.broker.data_dir, "indexed")
    assert {path.parent for path in small.files.segments_of("indexed")} == {directory}
    assert {path.parent.name for path in small.files.journals} == {"journal"}, "one for all queues"


def test_c089_segments(small: Stored) -> None:
    """An index is made of segments, K.idx, numbered from 0."""
    eventually(lambda: len(small.files.segments_of("indexed")) >= 2, WITHIN_S)
    names = [path.name for path in small.files.segments_of("indexed")]
    assert names == [f"{number}.idx" for number in range(len(names))]


def test_c090_entries(small: Stored) -> None:
    """A segment has 16384 entries."""
    eventually(lambda: len(small.files.segments_of("indexed")) >= 2, WITHIN_S)
    first = small.files.segments_of("indexed")[0].read_bytes()
    last = SEGMENT_ENTRIES - 1
    assert b"%08d-" % last in first
    assert b"%08d-" % (last + 1) not in first
    expected = math.ceil(5_000 / SEGMENT_ENTRIES)
    assert len(small.files.segments_of("indexed")) <= expected < NOTED_SEGMENT_ENTRIES


def test_c091_embedded(usual: Stored, small: Stored) -> None:
    """A message below queue_index_embed_msgs_below, 4096 bytes with its properties, is in the
    index."""
    for stored, limit in ((usual, 4_096), (small, 100)):
        declare_in(stored.broker, "c091")
        # The property block has three bytes here.
        for size, is_embedded in ((limit - 4, True), (limit - 3, False)):
            body = (b"c091-%d-" % size * size)[:size]
            send(stored.broker, [body], "c091")
            assert (occurrences(stored.files.index, body) > 0) == is_embedded
            assert (occurrences(stored.files.bodies, body) > 0) == (not is_embedded)


def test_c092_file_size(small: Stored) -> None:
    """The size of the message store's files can be set."""
    declare_in(small.broker, "c092")
    _send_slowly(small, numbered(300, size=10 * KIB), "c092")
    sizes = [path.stat().st_size for path in small.files.bodies[:-1]]
    assert len(sizes) >= 2
    assert all(MIB - 10 * KIB < size < MIB + 11 * KIB for size in sizes[1:])


def test_c093_deletion(small: Stored) -> None:
    """Deleting marks a message only; a file in which nothing is alive is deleted."""
    declare_in(small.broker, "c093")
    _send_slowly(small, numbered(300, size=10 * KIB), "c093")
    with client_of(small.broker) as client:
        for queue in ("c092", "c093"):
            if mails := look(client, queue):
                acknowledge(client, mails[-1], multiple=True)
            client.call(1, "queue.purge", queue=queue)
    eventually(lambda: _later_bytes(small) < MIB, WITHIN_S, LOOK_S)


def test_c094_compaction(small: Stored) -> None:
    """Files are compacted when half of them is garbage, and if there are at least three."""
    declare_in(small.broker, "c094")
    sent = numbered(800, size=10 * KIB)
    _send_slowly(small, sent, "c094")
    sent_bytes = sum(map(len, sent))
    with client_of(small.broker) as client:
        mails = look(client, "c094")
        for number, mail in enumerate(mails):
            if number % 10 < 4:
                acknowledge(client, mail)
        time.sleep(GARBAGE_STAYS_S)
        assert _existing_bytes(small.files) > sent_bytes, "40 % of it is not enough"
        for number, mail in enumerate(mails):
            if 4 <= number % 10 < 7:
                acknowledge(client, mail)
        requeue_all(client, "c094", 240)
    eventually(lambda: _later_bytes(small) < 0.65 * sent_bytes, WITHIN_S, LOOK_S)
    assert bodies(look_once(small.broker, "c094")) == [
        body for number, body in enumerate(sent) if number % 10 >= 7
    ]


def _send_slowly(stored: Stored, sent: list[bytes], queue: str) -> None:
    """A piece at a time: a file that is full grows on until the next one is ready."""
    for start in range(0, len(sent), 20):
        send(stored.broker, sent[start : start + 20], queue)


def _later_bytes(stored: Stored) -> int:
    """Size of the bodies' files after one more message, with which a file may follow another.

    The file that is written to is neither deleted nor compacted.
    """
    declare_in(stored.broker, "later")
    send(stored.broker, numbered(1, size=10 * KIB), "later")
    with client_of(stored.broker) as client:
        client.call(1, "queue.purge", queue="later")
    return _existing_bytes(stored.files)


def _existing_bytes(files: DataFiles) -> int:
    """Size of the bodies' files, while they come and go."""
    try:
        return size_bytes(files.bodies)
    except FileNotFoundError:
        return _existing_bytes(files)
