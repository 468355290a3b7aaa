"""A driver that was taken for dead and goes on: it is refused, and each batch is there once.

Its processes are stopped as those of a machine that hangs. A second driver with the same checkpoint
takes over and goes further. Then the first one goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from broker_process import BrokerProcess
from pipeline_chaos.faults import QUEUE, check_numbers
from pipeline_chaos.ingesting import IngestProcess, numbers_in
from pipeline_chaos.job_process import wait_until
from pipeline_chaos.publishing import Publisher

# The lake finds it out, or the checkpoint does, if the batch was in the lake already.
REFUSALS = ("two jobs run with one checkpoint", "Multiple streaming jobs detected")
FAILED = 1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def publisher(broker: BrokerProcess) -> Iterator[Publisher]:
    parameters = pika.ConnectionParameters(*broker.address, heartbeat=0)
    publisher = Publisher(lambda: parameters, QUEUE)
    publisher.start()
    wait_until("messages are confirmed", lambda: len(publisher.confirmed) > 10)
    yield publisher
    publisher.stop()


def test_a_driver_that_goes_on_after_another_took_over_is_refused_in_words(
    broker: BrokerProcess, publisher: Publisher, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{broker.http_port}"
    options = ["--url", url, "--queue", QUEUE, "--every-s", "0"]
    first, second = (driver(tmp_path, name, options) for name in ("first", "second"))
    try:
        first.start()
        wait_until("the first has committed", lambda: first.commits() > 1)
        first.freeze()
        committed = first.commits()
        second.start()
        wait_until("the second has gone further", lambda: second.commits() > committed + 1)
        first.thaw()
        assert first.wait() == FAILED, first.log()
        assert any(words in first.log() for words in REFUSALS), first.log()
        publisher.stop()
        assert second.is_running
    finally:
        first.kill_all()
        second.kill_all()
    second.run_once()
    check_numbers(numbers_in(second.lake), publisher.confirmed, publisher.published)


def driver(directory: Path, name: str, options: list[str]) -> IngestProcess:
    (directory / name).mkdir()
    lake, checkpoint = str(directory / "lake"), directory / "checkpoint"
    return IngestProcess(directory / name, lake, options, checkpoint)
