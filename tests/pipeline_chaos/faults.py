"""A run: a broker, a publisher, a job that is under way, and faults at random moments of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from pathlib import Path
from typing import Final

import pika

from broker_process import BrokerProcess
from pipeline_chaos.job_process import JobProcess, wait_until
from pipeline_chaos.publishing import Publisher

QUEUE: Final = "numbers"
FAULTS: Final = ("driver", "workers", "broker", "machine", "stop")
# So long after it has come further, at most, the next fault comes: at any moment of a batch.
MOMENT_S_MAX: Final = 2.0


class FaultyRun(ABC):
    """`job` takes what is published, and is started again whenever it ends."""

    faults: tuple[str, ...] = FAULTS

    def __init__(self, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self.broker = BrokerProcess(directory)
        self.parameters = pika.ConnectionParameters(*self.broker.address, heartbeat=0)
        self.publisher = Publisher(lambda: self.parameters, QUEUE)
        self.counts: dict[str, int] = {}

    @property
    @abstractmethod
    def job(self) -> JobProcess: ...

    @abstractmethod
    def progress(self) -> int:
        """How far the job is; grows."""

    @abstractmethod
    def outcome(self) -> Counter[int]:
        """How often each number is where it belongs, when all is done."""

    @abstractmethod
    def finish(self) -> None:
        """Have the job do all that there is to do."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what has to be there before the job is."""

    def start_brokers(self) -> None:
        self.broker.start()

    def stop_brokers(self) -> None:
        self.broker.kill()

    def begin(self) -> None:
        self.start_brokers()
        self.prepare()
        self.publisher.start()
        wait_until("messages are confirmed", lambda: len(self.publisher.confirmed) > 10)
        self.job.start()

    def harm(self, fault: str) -> None:
        """One fault, at a random moment after the job has come further."""
        self._await_progress()
        time.sleep(self._random.uniform(0, MOMENT_S_MAX))
        self.counts[fault] = self.counts.get(fault, 0) + 1
        getattr(self, f"_{fault}")()

    def check(self) -> int:
        """All is done, and each confirmed message is there once; how many there are."""
        self.publisher.stop()
        self.job.kill_all()
        self.finish()
        counted = self.outcome()
        check_numbers(counted, self.publisher.confirmed, self.publisher.published)
        return len(counted)

    def end(self) -> None:
        self.job.kill_all()
        self.stop_brokers()

    def _await_progress(self) -> None:
        """A job that has ended, by a fault or by itself, is started, as whoever runs it would."""
        before = self.progress()

        def has_come_further() -> bool:
            if not self.job.is_running:
                self.job.kill_all()
                self.job.start()
            return self.progress() > before

        wait_until(f"it comes further; the log ends:\n{self.job.log()}", has_come_further)

    def _driver(self) -> None:
        """The process that runs the job; what it leaves behind ends by itself, or not at all."""
        self.job.send(signal.SIGKILL)
        self.job.wait()

    def _machine(self) -> None:
        kill(self.job.machine())

    def _workers(self) -> None:
        kill(self.job.workers())

    def _broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def _stop(self) -> None:
        """As a person would: SIGTERM, and it ends by itself, cleanly."""
        if self.job.is_running:
            self.job.send(signal.SIGTERM)
            code = self.job.wait()
            # Before its handlers are there, a signal ends it like any other process.
            assert code in {0, -signal.SIGTERM}, f"ended with {code}:\n{self.job.log()}"


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def check_numbers(counted: Counter[int], confirmed: set[int], published: int) -> None:
    twice = [number for number, count in counted.items() if count > 1]
    assert not twice, f"{len(twice)} messages are there more than once, such as {min(twice)}"
    missing = confirmed - set(counted)
    assert not missing, f"{len(missing)} confirmed messages are missing, such as {min(missing)}"
    strange = set(counted) - set(range(published))
    assert not strange, f"nobody published {strange}"
