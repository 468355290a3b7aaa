"""`warren perf` against a running broker: what it counts is what happened."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from broker_process import Address, BrokerProcess
from live_broker import Names
from warren.perf.idle import hold_connections
from warren.perf.options import Options
from warren.perf.report import report
from warren.perf.runner import run_load


def measure(broker: Address, **options: Any) -> dict[str, Any]:
    wanted = Options(host=broker.host, port=broker.port, max_seconds=200, **options)
    return report(asyncio.run(run_load(wanted, lambda _: None)))


def test_everything_published_is_consumed_and_timed(broker: Address, names: Names) -> None:
    found = measure(broker, declare=True, queue=names("q"), count=5000, autoack=True)
    assert (found["published"], found["consumed"]) == (5000, 5000)
    assert (found["missing"], found["duplicates"], found["errors"]) == (0, 0, [])
    assert found["consume_rate"] > 0
    assert 0 < found["latency_us"]["p50"] <= found["latency_us"]["max"]


def test_confirms_are_counted_and_acknowledgements_leave_nothing_behind(
    broker: Address, names: Names, channel: BlockingChannel
) -> None:
    queue = names("q")
    found = measure(
        broker, declare=True, queue=queue, durable=True, persistent=True, producers=2, consumers=2,
        count=3001, confirm=100, prefetch=50, ack_every=7,
    )  # fmt: skip
    assert (found["published"], found["confirmed"], found["consumed"]) == (3001, 3001, 3001)
    assert (found["lost_confirmed"], found["nacked"]) == (0, 0)
    assert found["confirm_latency_us"]["p99"] > 0
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_a_fan_out_delivers_one_copy_to_each_queue(broker: Address, names: Names) -> None:
    names.given.extend(f"{names('q')}-{n}" for n in range(3))
    found = measure(
        broker, declare=True, queue=names.given[0], queues=3, consumers=3, exchange=names("x"),
        exchange_type="fanout", count=500, autoack=True,
    )  # fmt: skip
    assert (found["published"], found["consumed"]) == (500, 1500)
    assert (found["missing"], found["duplicates"]) == (0, 0)


def test_a_given_rate_is_kept(broker: Address, names: Names) -> None:
    found = measure(broker, declare=True, queue=names("q"), rate=500.0, time=1.0, autoack=True)
    # Without a limit it would be tens of thousands.
    assert 50 < found["published"] < 1_000


def test_a_drain_gets_what_was_left_and_deletes_the_queue(
    broker: Address, names: Names, channel: BlockingChannel
) -> None:
    queue = names("q")
    measure(broker, declare=True, queue=queue, count=1000, publish_only=True)
    found = measure(broker, queue=queue, drain=True, expect=1000, prefetch=10, delete_after=True)
    assert (found["consumed"], found["missing"]) == (1000, 0)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        channel.queue_declare(queue, passive=True)


def test_a_backlog_stands_while_messages_flow_and_is_gone_at_the_end(
    broker: Address, names: Names, channel: BlockingChannel
) -> None:
    queue, depths = names("q"), list[int]()
    options = Options(
        host=broker.host, port=broker.port, declare=True, queue=queue, backlog=2000, prefetch=100,
        ack_every=10, time=1.0,
    )  # fmt: skip

    def look(_: object) -> None:
        depths.append(channel.queue_declare(queue, passive=True).method.message_count)

    found = report(asyncio.run(run_load(options, look)))
    assert found["published"] == found["consumed"] > 2_000
    assert 500 < sorted(depths)[len(depths) // 2] < 10_000
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_unroutable_mandatory_messages_are_counted_as_returned(
    broker: Address, names: Names
) -> None:
    found = measure(broker, queue=names("nowhere"), mandatory=True, publish_only=True, count=10)
    assert (found["published"], found["returned"]) == (10, 10)


def test_a_queue_that_is_not_there_ends_the_run_with_the_brokers_words(
    broker: Address, names: Names
) -> None:
    found = measure(broker, queue=names("nowhere"), count=10)
    assert found["close_code"] == 404
    assert "NOT_FOUND - no queue" in found["errors"][0]


def test_a_run_without_a_broker_says_why_and_shows_no_figures() -> None:
    warren = Path(sys.executable).with_name("warren")
    done = subprocess.run(
        [warren, "perf", "--host", "127.0.0.1", "--port", "1", "--count", "10"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "connect 127.0.0.1:1: " in done.stderr


def test_a_port_that_does_not_speak_amqp_is_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        found = measure(Address("127.0.0.1", silent.getsockname()[1]), count=1)
        assert "is this its port for AMQP" in found["errors"][0]
        assert time.monotonic() - began < 30


def test_idle_connections_are_opened_held_and_closed(broker: Address) -> None:
    options = Options(
        host=broker.host, port=broker.port, idle_conns=20, idle_channel=True, time=0.1
    )
    found = asyncio.run(hold_connections(options))
    assert (found["idle_connections"], found["failed"], found["errors"]) == (20, 0, [])


def test_a_run_told_to_reconnect_outlives_a_restart_of_the_broker(tmp_path: Path) -> None:
    """A thousand confirmed messages, and the broker is killed in the middle of them."""
    process = BrokerProcess(tmp_path)
    process.start()
    options = Options(
        port=process.address.port, declare=True, durable=True, persistent=True, reconnect=True,
        confirm=50, rate=500.0, count=1_000, prefetch=50, max_seconds=200,
    )  # fmt: skip

    async def load_and_restart() -> dict[str, Any]:
        is_under_way = asyncio.Event()
        load = asyncio.create_task(run_load(options, lambda _: is_under_way.set()))
        await is_under_way.wait()
        process.kill()
        await asyncio.to_thread(process.start)
        return report(await load)

    try:
        found = asyncio.run(load_and_restart())
    finally:
        process.stop()
    assert found["reconnects"] >= 2
    assert found["published"] == found["confirmed"] == 1_000
    assert found["max_confirm_gap_ms"] > 100


def test_the_command_prints_one_json_object_and_fails_when_nobody_listens(
    broker: Address, names: Names
) -> None:
    program = str(Path(sys.executable).with_name("warren"))
    command = [program, "perf", "--json", "--declare", "--queue", names("q"), "--count", "100"]
    done = subprocess.run(
        [*command, "--port", str(broker.port)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["consumed"] == 100
    failed = subprocess.run([*command, "--port", "1"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "refused" in json.loads(failed.stdout)["errors"][0]
