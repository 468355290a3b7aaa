"""Limits for memory and disk that a node's configuration files set."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.actions import eventually
from acceptance.alarm_control import InProcessAlarmControl
from acceptance.control import Control
from broker_process import BrokerProcess
from claims.pages import Queue
from durability.mail import declare_in
from warren.server import machine

MIB = 1_048_576
UNITS = {
    "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30,
}  # fmt: skip
WARREN = Path(sys.executable).with_name("warren")
# The three snippets of the note, in one file.
ERLANG_TERMS = """
[
 {rabbit, [
   {vm_memory_high_watermark, 0.25},
   {vm_memory_high_watermark_paging_ratio, 0.75},
   {disk_free_limit, 60000000}
 ]}
].
"""
COUNT, BODY_BYTES = 60_000, 1_000


class Configured:
    """Starts a node with a configuration, and stops it before the next one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._brokers: list[BrokerProcess] = []

    def __call__(self, config: str) -> BrokerProcess:
        self.stop()
        directory = self._directory / str(len(self._brokers))
        directory.mkdir()
        self._brokers.append(BrokerProcess(directory, config))
        self._brokers[-1].start()
        return self._brokers[-1]

    def stop(self) -> None:
        for broker in self._brokers:
            broker.kill()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Configured]:
    configured = Configured(tmp_path)
    yield configured
    configured.stop()


def limits_of(broker: BrokerProcess) -> tuple[int, int]:
    """Memory and disk."""
    (node,) = broker.ask("/api/nodes")
    return node["mem_limit"], node["disk_free_limit"]


def total_memory() -> int:
    total = machine.memory_total()
    assert total is not None
    return total


def checked(directory: Path, config: str) -> tuple[int, str]:
    """What `warren check-config` says about a file."""
    path = directory / "checked.conf"
    path.write_text(config)
    done = subprocess.run(
        [WARREN, "check-config", path], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_c117_size_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """set_vm_memory_high_watermark reads the size of the memory again."""
    node = InProcessAlarmControl(tmp_path)
    try:
        # No container can be resized here: a node in a thread is told another size.
        total = total_memory()
        monkeypatch.setattr(machine, "memory_total", lambda: total // 2)
        node.set_memory_watermark(0.4)
        limit = node.on_loop(lambda: node.node.alarms.memory.limit_bytes)
        assert limit == int(0.4 * (total // 2))
    finally:
        node.stop()


def test_c118_erlang_terms(tmp_path: Path) -> None:
    """rabbitmq.config, of Erlang terms such as {vm_memory_high_watermark, 0.4}, sets limits."""
    path = tmp_path / "rabbitmq.config"
    path.write_text(ERLANG_TERMS)
    broker = BrokerProcess(tmp_path)
    broker.options = ["--config", str(path)]
    try:
        broker.start()
        assert limits_of(broker) == (int(0.25 * total_memory()), 60_000_000)
    finally:
        broker.kill()


def test_c119_rabbitmq_conf(configured: Configured) -> None:
    """rabbitmq.conf sets vm_memory_high_watermark.relative or .absolute."""
    broker = configured("vm_memory_high_watermark.relative = 0.3\n")
    assert limits_of(broker)[0] == int(0.3 * total_memory())
    broker = configured("vm_memory_high_watermark.absolute = 300MiB\n")
    assert limits_of(broker)[0] == 300 * MIB


def test_c120_paging_from_a_half(configured: Configured) -> None:
    """Messages are paged out from half of the memory limit on."""
    broker = configured("vm_memory_high_watermark.absolute = 160MiB\n")
    declare_in(broker, "q")
    Queue.flood(broker, "q", COUNT, BODY_BYTES)
    moved = f"threshold_bytes={80 * MIB}"
    eventually(lambda: "messages are moved to disk" in broker.log())
    assert moved in broker.log()
    assert "alarm set" not in broker.log()


def test_c121_paging_ratio(configured: Configured) -> None:
    """vm_memory_high_watermark_paging_ratio sets from when on messages are paged out."""
    limit = "vm_memory_high_watermark.absolute = 120MiB\n"
    broker = configured(limit + "vm_memory_high_watermark_paging_ratio = 0.75\n")
    declare_in(broker, "q")
    Queue.flood(broker, "q", COUNT, BODY_BYTES)
    eventually(lambda: f"threshold_bytes={90 * MIB}" in broker.log())


def test_c122_paging_off(configured: Configured) -> None:
    """A paging ratio above 1 turns paging off."""
    limit = "vm_memory_high_watermark.absolute = 1500MiB\n"
    broker = configured(limit + "vm_memory_high_watermark_paging_ratio = 1.5\n")
    declare_in(broker, "q")
    Queue.flood(broker, "q", 4_000, BODY_BYTES)
    control = Control(f"http://127.0.0.1:{broker.http_port}")
    control.ok("set_vm_memory_high_watermark absolute 1MB")  # far below what it holds
    eventually(lambda: "alarm set" in broker.log())
    (node,) = broker.ask("/api/nodes")
    assert node["mem_alarm"]
    assert broker.ask("/api/queues/%2F/q")["messages_ram"] == 4_000
    assert "messages are moved to disk" not in broker.log()


def test_c126_units(configured: Configured, tmp_path: Path) -> None:
    """disk_free_limit takes KB, KiB, MB, MiB, GB and GiB."""
    broker = configured("disk_free_limit.absolute = 7MiB\n")
    control = Control(f"http://127.0.0.1:{broker.http_port}")
    assert limits_of(broker)[1] == 7 * MIB
    for unit, factor in UNITS.items():
        control.ok(f"set_disk_free_limit 2{unit}")
        assert limits_of(broker)[1] == 2 * factor
        code, said = checked(tmp_path, f"disk_free_limit.absolute = 2{unit}\n")
        assert (code, str(2 * factor) in said.replace("_", "")) == (0, True), said
    code, said = checked(tmp_path, "disk_free_limit = 50000000\n")
    assert code != 0
    assert "did you mean disk_free_limit.absolute?" in said


def test_c127_relative_to_memory(configured: Configured) -> None:
    """disk_free_limit can be a multiple of the memory."""
    broker = configured("disk_free_limit.relative = 0.0001\n")
    assert limits_of(broker)[1] == round(0.0001 * total_memory())
    at_run_time = Control(f"http://127.0.0.1:{broker.http_port}")
    at_run_time.ok("set_disk_free_limit mem_relative 1.5")
    assert limits_of(broker)[1] == round(1.5 * total_memory())
