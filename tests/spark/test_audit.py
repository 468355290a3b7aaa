"""`warren pipeline audit`: nodes have the same on their disks, or it is told what differs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pyspark.sql import SparkSession

from cluster.mirrored import MirroredCluster
from pyspark_warren.errors import InvalidOption
from pyspark_warren.jobs import AuditOptions, audit

QUEUE = "mirrored-audited"
SINGLE = "single"
STREAMS = ("mirrored-gone", "mirrored-short", "mirrored-broken")
MESSAGES = 40
LARGE = 9_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MirroredCluster]:
    cluster = MirroredCluster(tmp_path, size=2)
    cluster.start()
    yield cluster
    cluster.stop()


def body(number: int) -> bytes:
    """Every tenth is so large that it is kept in the store of bodies."""
    return b"<message %04d>" % number + b"." * (LARGE if number % 10 == 0 else 0)


def forget(directory: Path, content: bytes) -> None:
    """Delete a message by hand: what is found of it in any file is made zero."""
    found = 0
    for path in directory.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        if content in data:
            path.write_bytes(data.replace(content, bytes(len(content))))
            found += 1
    assert found, "it was in some file"


def test_a_message_deleted_by_hand_from_one_mirror_is_found(
    spark: SparkSession, cluster: MirroredCluster, tmp_path: Path
) -> None:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(QUEUE, durable=True)
    cluster.await_in_sync(QUEUE)
    channel.confirm_delivery()
    for number in range(MESSAGES):
        properties = pika.BasicProperties(delivery_mode=2, message_id=f"id-{number}")
        channel.basic_publish("", QUEUE, body(number), properties)
    for node in cluster.nodes:
        node.kill()
    log = tmp_path / "confirmed"
    log.write_text("".join(f"id-{number}\n" for number in range(MESSAGES)))
    first, second = cluster.nodes
    options = AuditOptions(
        nodes=f"a={first.data_dir},b={second.data_dir}", queue=QUEUE, confirmed=str(log)
    )
    before = audit(spark, options)
    assert before.is_sound, before.lines()
    assert before.verdict == "the copies are the same"
    log.write_text(log.read_text() + "id-of-none\n")
    without = audit(spark, options)
    assert not without.is_sound
    assert without.verdict == "the copies are the same, but 1 confirmed message is on no node"
    assert {name: node.messages for name, node in before.nodes.items()} == {
        "a": MESSAGES, "b": MESSAGES,
    }  # fmt: skip
    forget(second.data_dir, body(7)[:14])
    forget(second.data_dir, body(20)[:14])
    for node in cluster.nodes:
        forget(node.data_dir, body(33)[:14])
    after = audit(spark, options)
    assert not after.is_sound
    assert {(d.kind, d.message_id, tuple(d.copies.items())) for d in after.differences} == {
        ("missing", "id-7", (("a", 1), ("b", 0))),
        ("missing", "id-20", (("a", 1), ("b", 0))),
    }
    assert sorted(after.confirmed_missing) == ["id-33", "id-of-none"]
    assert after.verdict.startswith("the copies are NOT the same; ")
    assert after.verdict.endswith(" things are damaged; 2 confirmed messages are on no node")


def test_streams_are_compared_and_what_a_node_lacks_wholly_is_noticed(
    spark: SparkSession, cluster: MirroredCluster, tmp_path: Path
) -> None:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(SINGLE, durable=True)
    for name in STREAMS:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        cluster.await_in_sync(name)
    channel.confirm_delivery()
    for number in range(MESSAGES):
        properties = pika.BasicProperties(delivery_mode=2, message_id=f"id-{number}")
        for name in (SINGLE, *STREAMS):
            channel.basic_publish("", name, body(number), properties)
    for node in cluster.nodes:
        node.kill()
    log = tmp_path / "confirmed"
    log.write_text("".join(f"id-{number}\n" for number in range(MESSAGES)))
    first, second = cluster.nodes
    nodes = f"a={first.data_dir},b={second.data_dir}"
    before = audit(spark, AuditOptions(nodes=nodes, copies=1, confirmed=str(log)))
    assert before.is_sound, before.lines()
    counted = {name: (node.streams, node.records) for name, node in before.nodes.items()}
    assert counted == dict.fromkeys("ab", (len(STREAMS), len(STREAMS) * MESSAGES))

    # One stream is gone from b, of another b lacks the end, in the third a bit is wrong.
    gone, short, broken = (folder_of(second.data_dir, name) for name in STREAMS)
    shutil.rmtree(gone)
    segment = next(short.glob("*.segment"))
    segment.write_bytes(segment.read_bytes()[:-100])
    forget(broken, body(7)[:14])
    report = tmp_path / "report.html"
    after = audit(spark, AuditOptions(nodes=nodes, report=str(report)))
    assert [(one.kind, one.queue, one.on, one.not_on) for one in after.absent] == [
        ("queue", SINGLE, ("a",), ("b",)),
        ("stream", STREAMS[0], ("a",), ("b",)),
    ]
    missing = {one.queue for one in after.differences if one.copies == {"a": 1, "b": 0}}
    assert missing == set(STREAMS[1:])
    assert {one.queue for one in after.differences} == missing
    # What follows a chunk that cannot be read cannot be read either, and is told of as one part.
    (broken_part,) = [one for one in after.differences if one.queue == STREAMS[2]]
    assert broken_part.end == MESSAGES
    (short_part,) = [one for one in after.differences if one.queue == STREAMS[1]]
    assert (short_part.kind, short_part.end) == ("missing", MESSAGES)
    assert after.nodes["b"].records == (broken_part.offset or 0) + (short_part.offset or 0)
    assert any(STREAMS[2] in text and "offset" in text for text in after.damage)
    assert "2 queues or streams are not on every node" in after.verdict
    page = report.read_text()
    assert all(name in page for name in (*STREAMS, SINGLE))
    assert page.count("<svg") == 2
    only = audit(spark, AuditOptions(nodes=nodes, queue=STREAMS[0], copies=1))
    assert only.are_copies_same, only.lines()


def folder_of(data_dir: Path, stream: str) -> Path:
    names = data_dir.rglob(".queue_name")
    return next(path.parent for path in names if stream.encode() in path.read_bytes())


def test_what_is_no_directory_of_a_node_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="is not a data directory"):
        audit(spark, AuditOptions(nodes=f"a={tmp_path}"))
    with pytest.raises(InvalidOption, match="is not NAME=DIRECTORY"):
        audit(spark, AuditOptions(nodes=str(tmp_path)))
