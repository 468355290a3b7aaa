"""A replay that is hurt while it runs: queues that deduplicate have each message once.

The stream grows meanwhile, so that there is always something to publish: a replay goes as far as
the stream was when it began, and the next one goes on there. Slowly, so that faults come while it
publishes, and in small batches, so that they come between them, too.

Two queues get the same. One remembers the ids of the messages that it has, the other has a window
of ids. No message leaves them before the end, so whatever is there twice was taken twice.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel

from pipeline_chaos.faults import QUEUE, FaultyRun, check_numbers
from pipeline_chaos.job_process import JobProcess

EXCHANGE: Final = "again"
TARGETS: Final = {
    "by message": {"x-message-deduplication": True},
    "by window": {"x-message-deduplication": True, "x-cache-size": 1_000_000},
}
MESSAGES_PER_SECOND: Final = 400
AT_LAST_PER_SECOND: Final = 100_000
BATCH_OFFSETS: Final = 250


class ReplayChaos(FaultyRun):
    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        http, amqp = self.broker.http_port, self.broker.address.port
        options = [
            "--url", f"http://127.0.0.1:{http},amqp://127.0.0.1:{amqp}", "--queue", QUEUE,
            "--to-exchange", EXCHANGE, "--state", str(directory / "state"), "--yes",
            "--rate", str(MESSAGES_PER_SECOND), "--offsets-max", str(BATCH_OFFSETS),
        ]  # fmt: skip
        self._replay = JobProcess("replay", directory, options)
        self._furthest = 0

    @property
    def job(self) -> JobProcess:
        return self._replay

    def prepare(self) -> None:
        with self._channel() as channel:
            declare_targets(channel)

    def progress(self) -> int:
        """A broker that has just started may not have counted everything yet."""
        with self._channel() as channel:
            answers = [channel.queue_declare(name, passive=True) for name in TARGETS]
        depth = min(answer.method.message_count for answer in answers)
        self._furthest = max(self._furthest, depth)
        return self._furthest

    def finish(self) -> None:
        self._replay.run_to_end("--rate", str(AT_LAST_PER_SECOND))

    def outcome(self) -> Counter[int]:
        """Of the queue that is not checked by whoever asks, if the other is right."""
        with self._channel() as channel:
            *others, last = [drained(channel, name) for name in TARGETS]
        for counted in others:
            check_numbers(counted, self.publisher.confirmed, self.publisher.published)
        return last

    @contextlib.contextmanager
    def _channel(self) -> Iterator[BlockingChannel]:
        with contextlib.closing(pika.BlockingConnection(self.parameters)) as connection:
            yield connection.channel()


def declare_targets(channel: BlockingChannel) -> None:
    channel.exchange_declare(EXCHANGE, "fanout", durable=True)
    for name, arguments in TARGETS.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        channel.queue_bind(name, EXCHANGE)


def drained(channel: BlockingChannel, queue: str) -> Counter[int]:
    counted: Counter[int] = Counter()
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return counted
        counted[int(body)] += 1
