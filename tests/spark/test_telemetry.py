"""`warren pipeline telemetry`: events become windows, and windows a diagnosis."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from broker_process import BrokerProcess
from durability.mail import client_of, declare, publish_frames
from overloading import overloading
from pyspark_warren.jobs import TelemetryOptions, Watch, telemetry
from pyspark_warren.jobs.diagnosis import Bottleneck, Held, LoopShares, diagnose
from pyspark_warren.jobs.telemetry_report import report_of
from pyspark_warren.jobs.windows import Window
from starving import starved

PLOTS = 7
STARVED_S = 8.0
# Of real overloads; record_overloads.py says how they were made.
RECORDING = json.loads((Path(__file__).parent / "recordings" / "overloads.json").read_text())
EXPECTED = {
    "routing@localhost": Bottleneck.ROUTING,
    "queue@localhost": Bottleneck.QUEUE,
    "disk@localhost": Bottleneck.DISK,
    "starved@localhost": Bottleneck.MACHINE,
}


class Lines(Watch):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_the_bottleneck_of_four_overloads_is_named(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, tmp_path: Path
) -> None:
    channel.queue_bind(stream, "amq.topic", "#")
    for events in RECORDING.values():
        for event in events:
            properties = pika.BasicProperties(delivery_mode=2, headers=event["headers"])
            channel.basic_publish("amq.topic", event["routing_key"], b"", properties)
    report = tmp_path / "report.html"
    options = TelemetryOptions(
        url=http_url, queue=stream, exchange="", state=str(tmp_path / "state"), once=True,
        window_s=2, report=str(report),
    )  # fmt: skip
    said = Lines()
    found = telemetry(spark, options, said)
    assert {node: found.diagnosis(node).bottleneck for node in found.nodes} == EXPECTED
    assert max(window.figure("publish_rate") for window in found.windows) > 0
    page = report.read_text()
    assert page.count("<figcaption>") == PLOTS * len(EXPECTED)
    assert page.count('role="img"') >= (PLOTS - 2) * len(EXPECTED), "two may have nothing to show"
    assert "The machine is starved" in page
    assert all(f"Bottleneck: {expected.value}" in page for expected in EXPECTED.values())
    (line,) = [line for line in said.lines if line.startswith("batch")]
    assert re.fullmatch(r"batch 0: [\d,]+ events in .+ windows; nothing behind", line)
    again = telemetry(spark, options)
    assert again == found, "what was taken in once is not taken in again, and is kept"


@pytest.mark.timeout(600)
def test_a_real_broker_that_gets_no_processor_is_told_to_be_starved(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path, "warren.telemetry_interval = 500")
    pid = broker.launch().pid
    broker.await_ready()
    try:
        url = f"http://guest:guest@127.0.0.1:{broker.http_port}"
        options = TelemetryOptions(url=url, state=str(tmp_path / "state"), once=True, window_s=2)
        telemetry(spark, options)  # declares the stream
        frames = publish_frames(bytes(500), b"\0\0", routing_key="q") * 400
        with client_of(broker) as client:
            declare(client, "q")
            with starved(pid), overloading(client, frames):
                time.sleep(STARVED_S)
        found = telemetry(spark, options)
    finally:
        broker.kill()
    (node,) = found.nodes
    diagnosis = found.diagnosis(node)
    assert diagnosis.bottleneck is Bottleneck.MACHINE, [w.held for w in found.of_node(node)]
    assert "The machine is starved" in report_of(found).page()


@pytest.mark.parametrize(
    ("held", "bottleneck"),
    [
        (Held(), Bottleneck.NONE),
        (Held(queues=1), Bottleneck.NONE),
        (Held(connections=2), Bottleneck.ROUTING),
        (Held(connections=2, channels=1), Bottleneck.QUEUE),
        (Held(connections=2, channels=1, queues=1), Bottleneck.DISK),
        (Held(connections=2, blocked=1), Bottleneck.ALARM),
        (Held(connections=2, loop=LoopShares(90, 60)), Bottleneck.ROUTING),
        (Held(connections=2, loop=LoopShares(100, 6)), Bottleneck.MACHINE),
        (Held(connections=2, channels=1, queues=1, loop=LoopShares(99, 7)), Bottleneck.MACHINE),
        (Held(loop=LoopShares(95, 20)), Bottleneck.MACHINE),
        (Held(loop=LoopShares(50, 5)), Bottleneck.NONE),
        (Held(connections=1, loop=LoopShares(90, 85, steal=30)), Bottleneck.MACHINE),
        (Held(connections=1, loop=LoopShares(90)), Bottleneck.ROUTING),
        (Held(blocked=1, loop=LoopShares(100, 6)), Bottleneck.ALARM),
    ],
)
def test_the_last_in_flow_is_before_the_bottleneck(held: Held, bottleneck: Bottleneck) -> None:
    assert held.bottleneck is bottleneck


def test_a_broker_that_does_not_tell_how_long_its_loop_ran_is_judged_by_all_its_threads() -> None:
    figures = {"busy_percent": (100.0, 1), "cpu_percent": (6.0, 1)}
    window = Window(0, "n", "", {"connections_in_flow": 1}, {}, figures)
    assert window.held.bottleneck is Bottleneck.MACHINE
    ran = replace(window, means={**figures, "loop_cpu_percent": (90.0, 1)})
    assert ran.held.bottleneck is Bottleneck.ROUTING


def test_most_windows_decide_and_quiet_ones_do_not_count() -> None:
    routing, queue = Held(connections=1), Held(connections=1, channels=1)
    found = diagnose([Held(), routing, queue, queue, Held(), Held()])
    assert (found.bottleneck, found.windows) == (Bottleneck.QUEUE, 3)
    assert diagnose([Held()]).bottleneck is Bottleneck.NONE
