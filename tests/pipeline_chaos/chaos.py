"""A run: a broker, a publisher, an ingest, and faults at random moments of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Final

import pika

from broker_process import BrokerProcess
from pipeline_chaos.ingesting import IngestProcess, check_lake, wait_until
from pipeline_chaos.publishing import Publisher

QUEUE: Final = "numbers"
FAULTS: Final = ("driver", "workers", "broker", "machine", "stop")
# So long after a batch, at most, the next fault comes: at any moment of the next batches.
MOMENT_S_MAX: Final = 2.0


class Chaos:
    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self.broker = BrokerProcess(directory)
        parameters = pika.ConnectionParameters(*self.broker.address, heartbeat=0)
        self.publisher = Publisher(lambda: parameters, QUEUE)
        url = f"http://127.0.0.1:{self.broker.http_port}"
        options = ["--url", url, "--queue", QUEUE, "--every-s", "0", "--compact-files", "6"]
        self.ingest = IngestProcess(directory, options)
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        self.broker.start()
        self.publisher.start()
        wait_until("messages are confirmed", lambda: len(self.publisher.confirmed) > 10)
        self.ingest.start()

    def harm(self, fault: str) -> None:
        """One fault, at a random moment after the next batch."""
        self._await_batch()
        time.sleep(self._random.uniform(0, MOMENT_S_MAX))
        self.counts[fault] = self.counts.get(fault, 0) + 1
        getattr(self, f"_{fault}")()

    def check(self) -> None:
        """Everything is taken in, and each confirmed message is there once."""
        self.publisher.stop()
        self.ingest.kill_all()
        self.ingest.run_once()
        check_lake(self.ingest.lake, self.publisher.confirmed, self.publisher.published)

    def end(self) -> None:
        self.ingest.kill_all()
        self.broker.kill()

    def _await_batch(self) -> None:
        """A job that a fault has ended is started again, as whoever runs it would."""
        before = self.ingest.commits()

        def has_come_further() -> bool:
            if not self.ingest.is_running:
                self.ingest.kill_all()
                self.ingest.start()
            return self.ingest.commits() > before

        wait_until(f"another batch; the log ends:\n{self.ingest.log()}", has_come_further)

    def _driver(self) -> None:
        """The process that runs the job; what it leaves behind ends by itself, or not at all."""
        self.ingest.send(signal.SIGKILL)
        self.ingest.wait()

    def _machine(self) -> None:
        kill(self.ingest.machine())

    def _workers(self) -> None:
        kill(self.ingest.workers())

    def _broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def _stop(self) -> None:
        """As a person would: SIGTERM, and it ends by itself, cleanly."""
        if self.ingest.is_running:
            self.ingest.send(signal.SIGTERM)
            code = self.ingest.wait()
            # Before its handlers are there, a signal ends it like any other process.
            assert code in {0, -signal.SIGTERM}, f"ended with {code}:\n{self.ingest.log()}"


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
