"""`warren cluster`: one command, several nodes that work together, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from broker_process import broker_command
from cluster.nodes import body_of, eventually, publish

WITHIN_S = 120.0


class Command:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._output = directory / "output"
        self._data_dir = directory / "data"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = [broker_command(), "cluster", "--nodes", "2", "--data-dir", str(self._data_dir)]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}
            )
        return self.process

    def output(self) -> str:
        return self._output.read_text()

    def await_output(self, pattern: str) -> None:
        def is_there() -> bool:
            assert self.process is not None
            found = re.search(pattern, self.output()) is not None
            assert found or self.process.poll() is None, self.output()
            return found

        eventually(is_there, pattern, WITHIN_S)

    def channels(self) -> list[BlockingChannel]:
        urls = re.findall(r"amqp://127.0.0.1:\d+", self.output())
        return [BlockingConnection(pika.URLParameters(url)).channel() for url in urls]

    def children(self) -> list[int]:
        assert self.process is not None
        pid = self.process.pid
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    if command.process is not None and command.process.poll() is None:
        command.process.terminate()
        command.process.wait(WITHIN_S)


def test_it_prints_how_to_use_nodes_that_are_one_broker_and_stops_all_of_them(
    command: Command,
) -> None:
    process = command.start()
    command.await_output("A cluster of 2 nodes is ready")
    one, two = command.channels()
    one.queue_declare("q", durable=True)
    two.confirm_delivery()
    publish(two, "q", b"kept")
    for channel in (one, two):
        channel.connection.close()
    children = command.children()
    assert len(children) == 3, "etcd and two nodes"

    process.send_signal(signal.SIGINT)
    assert process.wait(WITHIN_S) == 0
    assert command.output().endswith("all have stopped\n")
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []

    process = command.start()
    command.await_output("A cluster of 2 nodes is ready")
    one, two = command.channels()
    one.connection.close()
    assert body_of(two, "q") == b"kept"
    two.queue_declare("at two")

    victim = next(pid for pid in command.children() if _is_node(pid, "n1@localhost"))
    os.kill(victim, signal.SIGKILL)
    command.await_output("n1@localhost has ended by SIGKILL; its log is .*n1.log")
    two.basic_publish("", "at two", b"the other one goes on")
    assert body_of(two, "at two") == b"the other one goes on"
    two.connection.close()
    process.terminate()
    assert process.wait(WITHIN_S) == 0


def test_without_etcd_it_says_what_to_install(command: Command) -> None:
    process = command.start({"PATH": "/nowhere"})
    assert process.wait(WITHIN_S) == 69
    assert "Error: a cluster keeps its topology in etcd, and there is no 'etcd' on" in (
        command.output()
    )


def _is_node(pid: int, name: str) -> bool:
    return name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
