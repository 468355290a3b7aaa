"""`warren pipeline telemetry`: events become windows, and windows a diagnosis."""

from __future__ import annotations

import json
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from pyspark_warren.jobs import TelemetryOptions, telemetry
from pyspark_warren.jobs.diagnosis import Bottleneck, Held, diagnose

# Of real overloads; record_overloads.py says how they were made.
RECORDING = json.loads((Path(__file__).parent / "recordings" / "overloads.json").read_text())
EXPECTED = {
    "routing@localhost": Bottleneck.ROUTING,
    "queue@localhost": Bottleneck.QUEUE,
    "disk@localhost": Bottleneck.DISK,
}


def test_the_bottleneck_of_three_overloads_is_named(
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
        window_s=2, late_s=86_400, report=str(report),
    )  # fmt: skip
    found = telemetry(spark, options)
    assert {node: found.diagnosis(node).bottleneck for node in found.nodes} == EXPECTED
    assert max(window.figure("publish_rate") for window in found.windows) > 0
    page = report.read_text()
    assert page.count("<svg") == 5 * len(EXPECTED)
    assert all(f"Bottleneck: {expected.value}" in page for expected in EXPECTED.values())
    again = telemetry(spark, options)
    assert again == found, "what was taken in once is not taken in again, and is kept"


@pytest.mark.parametrize(
    ("held", "bottleneck"),
    [
        (Held(), Bottleneck.NONE),
        (Held(queues=1), Bottleneck.NONE),
        (Held(connections=2), Bottleneck.ROUTING),
        (Held(connections=2, channels=1), Bottleneck.QUEUE),
        (Held(connections=2, channels=1, queues=1), Bottleneck.DISK),
        (Held(connections=2, blocked=1), Bottleneck.ALARM),
    ],
)
def test_the_last_in_flow_is_before_the_bottleneck(held: Held, bottleneck: Bottleneck) -> None:
    assert held.bottleneck is bottleneck


def test_most_windows_decide_and_quiet_ones_do_not_count() -> None:
    routing, queue = Held(connections=1), Held(connections=1, channels=1)
    found = diagnose([Held(), routing, queue, queue, Held(), Held()])
    assert (found.bottleneck, found.windows) == (Bottleneck.QUEUE, 3)
    assert diagnose([Held()]).bottleneck is Bottleneck.NONE
