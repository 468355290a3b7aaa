"""Runs of test classes in virtual machines of their own, and what became of each test."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from java_suite.brokers import NODE, ControlServer
from java_suite.sources import classpath

STAND_IN: Final = Path(__file__).parent / "rabbitmqctl.py"
PASSED: Final = "passed"


@dataclass
class Outcomes:
    """What became of each test of a broker: passed, skipped, or failed and why."""

    of: dict[str, str] = field(default_factory=dict)

    def passed(self, test: str) -> bool:
        return self.of.get(test) == PASSED

    @property
    def counts(self) -> str:
        skipped = sum(outcome.startswith("skipped") for outcome in self.of.values())
        passed = sum(outcome == PASSED for outcome in self.of.values())
        return f"{passed} passed, {len(self.of) - passed - skipped} failed, {skipped} skipped"


def run_until_passed(
    control: ControlServer, name: str, log: Path, options: argparse.Namespace
) -> dict[str, str]:
    """Run the class again while some tests of it have never passed.

    Many of these tests wait for 50 or 100 ms, which is little on a busy machine.
    """
    found: dict[str, str] = {}
    for _ in range(options.tries):
        again = run_class(control, name, log, options)
        found |= {test: how for test, how in again.items() if found.get(test) != PASSED}
        if not any(how.startswith("failed") for how in found.values()):
            break
    return found


def run_class(
    control: ControlServer, name: str, log: Path, options: argparse.Namespace
) -> dict[str, str]:
    """Run the class against the broker; a test during which time runs out has failed."""
    properties = {
        "rabbitmqctl.bin": f"{sys.executable} -I -S {STAND_IN} {control.server_address}",
        "test-broker.A.nodename": NODE,
        "test-broker.A.node_port": str(control.broker.process.address.port),
    }
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += [f"-D{key}={value}" for key, value in properties.items()]
    command += ["-cp", classpath(options.built), "Recorder", name]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            process.wait(options.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return outcomes_in(log.read_text(errors="replace"), name.rpartition(".")[2])


def outcomes_in(log: str, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in log.splitlines():
        if not line.startswith("@@\t"):
            continue
        _, event, method, detail = line.split("\t", 3)
        test = f"{name}.{method}"
        if event == "started":
            found[test] = "failed: ran out of time"
        elif event == "finished":
            if found.get(test) == "failed: ran out of time":
                found[test] = PASSED
        else:
            found[test] = f"{event}: {detail}"
    return found or {f"{name}.null": f"failed: no test ran: {log.strip()[-200:]}"}
