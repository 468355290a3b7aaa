"""Runs one load against one broker and reads what it measured.

The load generator is `mqload` (C, built once from its source when that is at hand), because a tool
must be faster than what it measures; `warren perf` has the same options and answers where it is
not.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from bench.brokers import Broker

ROOT: Final = Path(__file__).parent.parent
MQLOAD_SOURCE: Final = ROOT.parent / "shared" / "bench" / "mqload.c"
MQLOAD: Final = ROOT / "build" / "mqload"
WARREN_PERF: Final = (str(Path(sys.executable).with_name("warren")), "perf")
BUSY_CORES_WORTH_SAYING: Final = 0.3
STOLEN_CORES_WORTH_SAYING: Final = 0.1


@dataclass(frozen=True)
class Measurement:
    rate: float
    cpu_us: float
    latency_p50_ms: float
    latency_p99_ms: float
    confirm_p50_ms: float | None
    confirm_p99_ms: float | None
    lost: float
    duplicates: float
    others_busy_cores: float
    stolen_cores: float = 0.0
    """That the host of a virtual machine had given to others while there was work."""


class LoadFailed(Exception):
    """The load did not run to its end; says what it printed."""


def tool() -> Sequence[str]:
    """The command to run a load with: MQLOAD, mqload if it can be built, else warren perf."""
    if os.environ.get("MQLOAD"):
        return (os.environ["MQLOAD"],)
    compiler = shutil.which("cc")
    if not MQLOAD_SOURCE.exists() or compiler is None:
        return WARREN_PERF
    if not MQLOAD.exists() or MQLOAD.stat().st_mtime < MQLOAD_SOURCE.stat().st_mtime:
        MQLOAD.parent.mkdir(exist_ok=True)
        command = [compiler, "-O2", "-o", str(MQLOAD), str(MQLOAD_SOURCE), "-lpthread"]
        subprocess.run(command, check=True)
    return (str(MQLOAD),)


def command_for(broker: Broker, options: Sequence[str], program: Sequence[str]) -> list[str]:
    return [
        *program, "--port", str(broker.port), "--broker-pid", str(broker.pid), "--json", *options,
    ]  # fmt: skip


def run(
    broker: Broker, options: Sequence[str], program: Sequence[str] | None = None
) -> dict[str, Any]:
    command = command_for(broker, options, program or tool())
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise LoadFailed(f"{done.stdout}{done.stderr}".strip())
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def measure(
    broker: Broker, options: Sequence[str], program: Sequence[str] | None = None
) -> Measurement:
    stolen_s, began = _stolen_s(), time.monotonic()
    report = run(broker, options, program)
    stolen_cores = (_stolen_s() - stolen_s) / (time.monotonic() - began)
    latency, confirm = report["latency_us"], report.get("confirm_latency_us")
    return Measurement(
        rate=report["consume_rate"],
        cpu_us=report["broker_cpu_us_per_msg"],
        latency_p50_ms=latency["p50"] / 1000,
        latency_p99_ms=latency["p99"] / 1000,
        confirm_p50_ms=confirm["p50"] / 1000 if confirm else None,
        confirm_p99_ms=confirm["p99"] / 1000 if confirm else None,
        lost=report["missing"],
        duplicates=report["duplicates"],
        others_busy_cores=report["other_busy_cores"],
        stolen_cores=stolen_cores,
    )


def _stolen_s() -> float:
    """Since the machine was started."""
    ticks = Path("/proc/stat").read_text().split(maxsplit=9)[8]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def median(measurements: Sequence[Measurement]) -> Measurement:
    """Field by field; but what went wrong in any run is summed, not hidden by a median."""
    middle: dict[str, Any] = {}
    for field in fields(Measurement):
        values = [getattr(m, field.name) for m in measurements]
        if field.name in {"lost", "duplicates"}:
            middle[field.name] = sum(values)
        else:
            middle[field.name] = None if None in values else statistics.median(values)
    return Measurement(**middle)


def losses(what: str, result: Measurement) -> list[str]:
    """To be noted below a table, if there is something to note."""
    if not result.lost and not result.duplicates:
        return []
    return [f"{what}: {result.lost:g} messages missing, {result.duplicates:g} duplicated."]


def disturbances(results: Iterable[Measurement]) -> list[str]:
    done = list(results)
    busy_cores = max((result.others_busy_cores for result in done), default=0.0)
    stolen_cores = max((result.stolen_cores for result in done), default=0.0)
    notes = []
    if busy_cores > BUSY_CORES_WORTH_SAYING:
        notes.append(f"Other processes kept up to {busy_cores:.1f} cores busy meanwhile.")
    if stolen_cores > STOLEN_CORES_WORTH_SAYING:
        notes.append(f"The host took up to {stolen_cores:.1f} cores from this machine meanwhile.")
    if notes:
        notes.append("So rates are too low and latencies too high; CPU per message moves far less.")
    return notes
