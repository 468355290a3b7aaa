"""The load of the demo: one publisher with numbered messages and confirms, and a reader at the end.

A message counts as lost if it was confirmed and the reader does not get it. Both are the workers of
`warren perf`, so the demo cannot be kinder to the broker than a measurement.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

from warren.perf import topology
from warren.perf.consumer import Consumer
from warren.perf.load import Load
from warren.perf.options import Options
from warren.perf.producer import Producer

BODY_BYTES: Final = 256
WINDOW: Final = 500
PREFETCH: Final = 500
POLL_S: Final = 0.02
STOP_S_MAX: Final = 60.0
# Nothing came for so long: there is no more to come.
QUIET_S_MAX: Final = 10.0

Address = tuple[str, int]


@dataclass(frozen=True)
class ReadGate:
    """What came back of what was confirmed."""

    confirmed: int
    received: int
    lost: int
    duplicates: int


class Publishing:
    """Publishes from `start` to `stop`, through the first of the addresses that answers."""

    def __init__(self, queue: str, addresses: list[Address], rate: float) -> None:
        self._options = Options(
            host=addresses[0][0],
            port=addresses[0][1],
            endpoints=",".join(f"{host}:{port}" for host, port in addresses[1:]),
            queue=queue,
            durable=True,
            size=BODY_BYTES,
            persistent=True,
            confirm=WINDOW,
            rate=rate,
            reconnect=True,
        )
        self._load = Load(self._options)
        self._producer = Producer(0, self._load, None)
        self._task: asyncio.Task[None] | None = None

    async def declare(self, address: Address) -> None:
        """There, so that the queue's leader is there."""
        host, port = address
        await topology.declare(replace(self._options, host=host, port=port))

    def start(self) -> None:
        self._load.started_ns = time.monotonic_ns()
        self._load.go.set()
        self._task = asyncio.create_task(self._producer.run())

    async def stop(self) -> None:
        """Returns when all that was published is confirmed."""
        self._load.stop_publishing()
        self._producer.wake()
        if self._task is not None:
            async with asyncio.timeout(STOP_S_MAX):
                await self._task

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    @property
    def published(self) -> int:
        return self._producer.published

    @property
    def confirmed(self) -> int:
        return self._producer.confirmed

    @property
    def gap_ms(self) -> float:
        """The longest time between two confirms, since it was forgotten last."""
        return self._producer.gap_ns / 1e6

    def forget_gap(self) -> None:
        self._producer.gap_ns = 0

    async def read_back(self, address: Address) -> ReadGate:
        """Empty the queue, at another node if you like, and compare."""
        options = replace(
            self._options, host=address[0], port=address[1], drain=True, prefetch=PREFETCH
        )
        load = Load(options)
        consumer = Consumer(0, load)
        reading = asyncio.create_task(consumer.run())
        wanted = self._producer.confirmed_sequences.as_integer()
        try:
            while wanted & ~_received(load) and await _more_came(consumer):
                pass
            consumer.acknowledge_rest()
        finally:
            load.over.set()
            consumer.wake()
            await asyncio.wait([reading], timeout=STOP_S_MAX)
        received = _received(load)
        return ReadGate(
            wanted.bit_count(),
            received.bit_count(),
            (wanted & ~received).bit_count(),
            consumer.tally.duplicates,
        )


async def _more_came(consumer: Consumer) -> bool:
    """False after a while without."""
    seen, deadline = consumer.tally.consumed, time.monotonic() + QUIET_S_MAX
    while consumer.tally.consumed == seen:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def _received(load: Load) -> int:
    numbers = load.received.get((0, 0))
    return numbers.as_integer() if numbers is not None else 0
