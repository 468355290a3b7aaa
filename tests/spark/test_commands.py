"""The jobs as people run them: the commands of docs/PIPELINE.md, and the scripts of examples/.

Each command starts a Spark of its own, which is what takes the time here; the scripts find the
session of the tests.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from documents import ROOT, Block, Reader, blocks_of
from lake_tables import batches_in, table_in
from spark.old_lake import OldIngest

QUEUES = ("orders", "large-orders", "dead", "warehouse", "reminders", "telemetry", "work", "taken")
# Each of them starts Spark, which others may leave little of the machine to.
WITHIN_S = 900.0
STREAM = {"x-queue-type": "stream"}
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def clean(channel: BlockingChannel) -> Iterator[None]:
    yield
    for queue in QUEUES:
        channel.queue_delete(queue)


@pytest.fixture
def reader(tmp_path: Path, broker: BrokerProcess) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    reader.patience_s = WITHIN_S
    reader.ports = {"5672": broker.address.port, "15672": broker.http_port}
    yield reader
    reader.close()


def of_section(name: str) -> Block:
    (block,) = (
        block
        for block in blocks_of(ROOT / "docs" / "PIPELINE.md")
        if block.section.startswith(f"{name}:")
    )
    return block


def await_true(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def publish_orders(channel: BlockingChannel, numbers: range) -> None:
    for number in numbers:
        body = json.dumps({"id": number, "total": 10.0 * number}).encode()
        channel.basic_publish("amq.topic", "orders.new", body)


def ids_in(lake: Path) -> list[int]:
    if batches_in(lake) == 0:
        return []
    return sorted(body["id"] for body in table_in(lake)["body"].to_pylist())


def stopped_after_its_first_batch(reader: Reader, lake: Path) -> str:
    """The command of the guide without --once, ended by SIGTERM; what it said in the end."""
    words = of_section("ingest").text.replace("--once", "--every-s 1")
    log = reader.directory / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {reader.fitted(words)}"], cwd=reader.directory,
            env=reader.environment(), stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        await_true(lambda: len(ids_in(lake)) > 0, process, log)
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=WITHIN_S)[0].decode()
    finally:
        process.kill()
    assert process.returncode == 0, log.read_text()
    assert "SIGTERM: stopping" in log.read_text()
    return told


@pytest.mark.usefixtures("clean")
def test_ingest_is_stopped_and_goes_on_and_its_lake_is_replayed(
    reader: Reader, channel: BlockingChannel
) -> None:
    channel.queue_declare("orders", durable=True, arguments=STREAM)
    channel.queue_bind("orders", "amq.topic", "orders.#")
    publish_orders(channel, range(50))
    lake = reader.directory / "lake"
    assert "50 messages and 0 in quarantine" in stopped_after_its_first_batch(reader, lake)
    publish_orders(channel, range(50, 100))
    channel.basic_publish("amq.topic", "orders.bad", b"what?")
    reader.do(of_section("ingest"))
    assert reader.outputs[-1] == "50 messages and 1 in quarantine, in 1 batch\n"
    assert ids_in(lake) == list(range(100))
    channel.queue_declare("taken", durable=True)
    channel.queue_bind("taken", "amq.direct", "orders.new")
    reader.do(of_section("replay"))
    assert reader.outputs[-1] == "89 messages published\n"
    assert channel.queue_declare("taken", passive=True).method.message_count == 89


@pytest.mark.usefixtures("clean")
def test_a_lake_of_an_earlier_version_is_converted(
    reader: Reader, channel: BlockingChannel, spark: SparkSession, http_url: str
) -> None:
    channel.queue_declare("orders", durable=True, arguments=STREAM)
    for number in range(20):
        channel.basic_publish("", "orders", b'{"id": %d}' % number)
    lake = reader.directory / "lake"
    OldIngest(spark, lake, http_url, "orders", "id BIGINT NOT NULL").run()
    reader.do(of_section("convert"))
    assert reader.outputs[-1] == "20 rows in messages: the lake has Delta tables now\n"
    assert ids_in(lake) == list(range(20))


@pytest.mark.usefixtures("clean")
def test_dead_letters_telemetry_and_audit(
    reader: Reader, channel: BlockingChannel, broker: BrokerProcess
) -> None:
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("warehouse", durable=True, arguments=TO_DEAD)
    persistent = pika.BasicProperties(delivery_mode=2, message_id="an id")
    for _ in range(3):
        channel.basic_publish("", "warehouse", b"an order", persistent)
        got = channel.basic_get("warehouse")[0]
        channel.basic_reject(got.delivery_tag, requeue=False)
    reader.do(of_section("deadletters"))
    assert reader.outputs[-1].endswith("3 dead letters; 3 sent back\n")
    assert "<svg" in (reader.directory / "dead.html").read_text()
    assert channel.queue_declare("warehouse", passive=True).method.message_count == 3
    reader.do(of_section("telemetry"))
    assert (reader.directory / "telemetry.html").exists()
    copies = [reader.directory / name for name in "ab"]
    shutil.copytree(broker.data_dir, copies[0])  # the stream of telemetry grows meanwhile
    shutil.copytree(*copies)
    reader.replaced = {"/data/a": str(copies[0]), "/data/b": str(copies[1])}
    (reader.directory / "ids.txt").write_text("an id\n")
    reader.do(of_section("audit"))
    assert reader.outputs[-1].endswith("the copies are the same\n")


@pytest.mark.usefixtures("clean")
def test_examples(
    spark: SparkSession,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")

    def run(name: str, *arguments: str) -> str:
        path = ROOT / "examples" / name
        text = path.read_text().replace("15672", str(broker.http_port))
        text = text.replace("5672", str(broker.address.port))
        # Spark was started somewhere else, and takes what is not absolute from there.
        text = re.sub(r'"(telemetry)(?=["/])(?!":)', rf'"{tmp_path}/\1', text)
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        exec(compile(text, str(path), "exec"), {"__name__": "__main__", "__doc__": ""})
        return capsys.readouterr().out

    assert "9900 orders and 100 in quarantine" in run("ingest.py")
    said = run("replay.py")
    assert "1633 messages would be published" in said
    assert "1633 messages published; the queue has 1633" in said
    assert "100 sent back" in run("dead_letters.py")
    assert "warren" in run("telemetry.py")
    shutil.copytree(broker.data_dir, tmp_path / "a")  # the stream of telemetry grows meanwhile
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    said = run("audit.py", f"a={tmp_path / 'a'}", f"b={tmp_path / 'b'}")
    assert "the copies are the same" in said
    for report in ("dead-letters.html", "telemetry.html"):
        assert "<svg" in (tmp_path / report).read_text()
    assert (tmp_path / "lake").is_dir()
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
