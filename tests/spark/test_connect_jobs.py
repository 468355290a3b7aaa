"""Jobs over Spark Connect: this side has no JVM, and Spark none of this side's variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from broker_process import BrokerProcess, free_port
from lake_tables import offsets_in
from spark.connect_server import ConnectServer

WITHIN_S = 600.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    server = ConnectServer(tmp_path_factory.mktemp("connect"))
    server.start()
    yield server
    server.stop()


def run(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, with no Java to be found: a job that started one would fail."""
    hidden = {"JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-m", "pyspark_warren.jobs", *words, "--master", url],
        env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False,
    )  # fmt: skip


def ended_well(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_dead_letters_are_counted_and_sent_back(
    server: ConnectServer,
    channel: BlockingChannel,
    queue: str,
    http_url: str,
    amqp_url: str,
    tmp_path: Path,
) -> None:
    dead = f"{queue}-dead"
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(dead, durable=True)
    channel.queue_declare(queue, durable=True, arguments=arguments)
    try:
        for number in range(5):
            channel.basic_publish("", queue, b"%d" % number)
            got = channel.basic_get(queue)[0]
            assert got is not None
            channel.basic_reject(got.delivery_tag, requeue=False)
        report = tmp_path / "report.html"
        said = ended_well(
            run(
                server.url, "deadletters", "--url", f"{http_url},{amqp_url}", "--queue", dead,
                "--report", str(report), "--redrive",
            )
        )  # fmt: skip
        assert said.endswith("5 dead letters; 5 sent back\n")
        assert channel.queue_declare(queue, passive=True).method.message_count == 5
        assert "rejected" in report.read_text()
    finally:
        channel.queue_delete(dead)


def test_telemetry_goes_on_where_it_was(
    server: ConnectServer, channel: BlockingChannel, stream: str, http_url: str, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    words = (
        "telemetry", "--url", http_url, "--queue", stream, "--exchange", "", "--once",
        "--state", str(tmp_path / "state"), "--report", str(report),
    )  # fmt: skip

    def tell(window: int) -> None:
        headers = {"node": "n@host", "timestamp_in_ms": 1_800_000_000_000 + 10_000 * window}
        properties = pika.BasicProperties(headers={**headers, "messages": 7, "messages_ready": 7})
        channel.basic_publish("", stream, b"", properties)
        publish_stats = pika.BasicProperties(headers={**headers, "busy_percent": 40})
        channel.queue_bind(stream, "amq.topic", "warren.node.stats")
        channel.basic_publish("amq.topic", "warren.node.stats", b"", publish_stats)

    tell(0)
    assert ended_well(run(server.url, *words)).endswith("1 window\n")
    tell(1)
    done = run(server.url, *words)
    assert ended_well(done) == "n@host: no bottleneck\n2 windows\n"
    assert "batch 1: 2 events" in done.stderr
    assert "n@host" in report.read_text()


def test_an_audit_compares_copies(
    server: ConnectServer, channel: BlockingChannel, broker: BrokerProcess, tmp_path: Path
) -> None:
    channel.queue_declare("audited", durable=True)
    persistent = pika.BasicProperties(delivery_mode=2, message_id="an id")
    channel.basic_publish("", "audited", b"a message", persistent)
    copies = [tmp_path / name for name in "ab"]
    for copy in copies:
        shutil.copytree(broker.data_dir, copy)
    log = tmp_path / "ids"
    log.write_text("an id\nanother id\n")
    nodes = f"a={copies[0]},b={copies[1]}"
    same = run(server.url, "audit", "--nodes", nodes, "--queue", "audited")
    assert ended_well(same).endswith("the copies are the same\n")
    missing = run(
        server.url, "audit", "--nodes", nodes, "--queue", "audited", "--confirmed", str(log),
        "--report", str(tmp_path / "report.html"),
    )  # fmt: skip
    assert missing.returncode == 3, missing.stderr
    assert "confirmed and missing: another id" in missing.stdout
    assert missing.stdout.endswith(
        "the copies are the same, but 1 confirmed message is on no node\n"
    )
    assert "<svg" in (tmp_path / "report.html").read_text()
    channel.queue_delete("audited")


def test_where_no_server_is_it_says_so_at_once() -> None:
    url = f"sc://127.0.0.1:{free_port()}"
    done = run(url, "deadletters", "--url", "http://127.0.0.1:1", "--queue", "q")
    assert done.returncode == 1
    assert "no Spark Connect server answers" in done.stderr


def test_a_lake_is_filled_and_replayed(
    server: ConnectServer,
    channel: BlockingChannel,
    stream: str,
    http_url: str,
    amqp_url: str,
    tmp_path: Path,
) -> None:
    """Batches are written by a process of the server's, which knows nothing of this one."""
    lake = tmp_path / "lake"
    words = (
        "ingest", "--url", http_url, "--queue", stream, "--lake", str(lake), "--format", "json",
        "--schema", "id BIGINT NOT NULL", "--once", "--offsets-max", "10",
    )  # fmt: skip
    for number in range(25):
        channel.basic_publish("", stream, b'{"id": %d}' % number if number % 5 else b"what?")
    said = ended_well(run(server.url, *words))
    assert said == "20 messages and 5 in quarantine, in 3 batches\n"
    channel.basic_publish("", stream, b'{"id": 25}')
    assert ended_well(run(server.url, *words)).startswith("1 message and 0 in quarantine")
    assert offsets_in(lake) == [number for number in range(26) if number % 5 or number == 25]
    target = f"{stream}-again"
    channel.queue_declare(target, durable=True)
    try:
        said = ended_well(
            run(
                server.url, "replay", "--url", amqp_url, "--lake", str(lake), "--where",
                "body.id > 20", "--to-exchange", "", "--to-routing-key", target, "--yes",
            )
        )  # fmt: skip
        assert said == "5 messages published\n"
        assert channel.queue_declare(target, passive=True).method.message_count == 5
    finally:
        channel.queue_delete(target)
