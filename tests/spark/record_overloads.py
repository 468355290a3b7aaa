"""Records overloads of a real broker, what it tells of each: recordings/overloads.json.

    cd tests && python -m spark.record_overloads
    cd tests && python -m spark.record_overloads routing starved

The broker whose processor is to be the bottleneck has to get one, so it is scheduled before all
others, which only root may ask for; the one on a starved machine shares a processor with programs
that never sleep. The test of the telemetry job publishes the recording to a broker, since overloads
take long and want a machine to themselves; that they are told of like this is shown by
durability/test_telemetry.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Final

from acceptance.raw_client import RawClient, encode_properties
from broker_process import BrokerProcess
from durability.disk_faults import DiskFaults
from durability.mail import PERSISTENT_BLOCK, client_of, declare, publish_frames
from durability.test_telemetry import Heard, hearing
from overloading import overloading
from starving import starved

RECORDING: Final = Path(__file__).parent / "recordings" / "overloads.json"
CONFIG: Final = "warren.telemetry_interval = 1000"
OVERLOADED_S: Final = 12.0
SYNC_MS: Final = 1_500
MIB: Final = 1_048_576
KEPT: Final = ("warren.node.stats", "warren.queue.stats")
Overload = Callable[[RawClient], AbstractContextManager[None]]


def slow_disk(body_bytes: int) -> Overload:
    frames = publish_frames(bytes(body_bytes), PERSISTENT_BLOCK, routing_key="q")
    return lambda client: overloading(client, frames * (4 * MIB // body_bytes))


def slow_routing(client: RawClient) -> AbstractContextManager[None]:
    properties = encode_properties(headers={f"h{number}": "v" for number in range(5)})
    client.call(1, "exchange.declare", exchange="slow", type="headers")
    for number in range(10):
        wanted = {"x-match": "all", "h1": "v", "h2": "v", "h3": "v", "other": str(number)}
        client.call(1, "queue.bind", queue="q", exchange="slow", arguments=wanted)
    frames = publish_frames(bytes(500), properties, exchange="slow", routing_key="")
    return overloading(client, frames * 400)


def record(name: str, overload: Overload) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        broker = BrokerProcess(Path(directory), CONFIG)
        broker.options = ["--name", f"{name}@localhost"]
        faults = DiskFaults(Path(directory) / "faults", broker.data_dir)
        broker.environment = faults.environment
        pid = broker.launch().pid
        broker.await_ready()
        try:
            with client_of(broker) as client, hearing(broker, "#") as heard, ExitStack() as stack:
                declare(client, "q")
                if name in {"queue", "disk"}:
                    faults.slow_sync(SYNC_MS)
                if name == "routing":
                    os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
                if name == "starved":
                    stack.enter_context(starved(pid))
                with overload(client):
                    _listen(heard, OVERLOADED_S)
                    faults.rule()
                _listen(heard, 3)
        finally:
            broker.kill()
    return [
        {"routing_key": key, "headers": headers}
        for key, headers in heard.events
        if key in KEPT or key.endswith(".state")
    ]


def _listen(heard: Heard, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        heard.listen()
        time.sleep(0.05)


def main() -> None:
    stages: dict[str, Overload] = {
        "routing": slow_routing,
        "queue": slow_disk(1_000),
        "disk": slow_disk(20_000),
        "starved": slow_routing,
    }
    events = json.loads(RECORDING.read_text()) if RECORDING.exists() else {}
    chosen = sys.argv[1:] or list(stages)
    events |= {name: record(name, stages[name]) for name in chosen}
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, told)) + "\n]"
        for name, told in events.items()
    ]
    RECORDING.parent.mkdir(exist_ok=True)
    RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print({name: len(told) for name, told in events.items()})


if __name__ == "__main__":
    main()
