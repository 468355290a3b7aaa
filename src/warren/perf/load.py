"""Load that several workers share, and the life of a worker: connect, work, connect again."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from warren.client.errors import ConnectionLost
from warren.perf.client import Client, Receiver
from warren.perf.options import BACKLOG_SLACK, Options
from warren.perf.tally import SequenceSet

ERRORS_KEPT_MAX: Final = 20
RECONNECT_SECONDS: Final = 0.02


class Backlog:
    """Keeps about `floor` messages in the broker: producers pause above it, consumers below."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.depth = 0
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.consumers: list[Callable[[], None]] = []

    def published(self, count: int) -> None:
        self.depth += count
        if self.depth >= self.floor + BACKLOG_SLACK:
            self.has_room.clear()

    def settled(self, count: int) -> None:
        self.depth -= count
        if self.depth < self.floor + BACKLOG_SLACK:
            self.has_room.set()

    def wake_consumers(self) -> None:
        for settle in self.consumers:
            settle()

    def release(self) -> None:
        """No more is published, so everything may go."""
        self.floor = 0
        self.has_room.set()
        self.wake_consumers()


class Load:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.go = asyncio.Event()
        self.is_publishing_over = False
        self.over = asyncio.Event()
        self.has_failed = False
        self.errors: list[str] = []
        self.close_code = 0
        self.started_ns = 0
        self.backlog = Backlog(options.backlog) if options.backlog else None
        self.received: dict[tuple[int, int], SequenceSet] = {}
        """What came to any consumer, by copy of the message and producer."""

    def report_error(self, text: str, code: int = 0) -> None:
        if self.options.verbose:
            print(f"warren perf: {text}", file=sys.stderr)
        if len(self.errors) < ERRORS_KEPT_MAX:
            self.errors.append(text)
        self.close_code = code or self.close_code

    def stop_publishing(self) -> None:
        self.is_publishing_over = True


class Worker(Receiver, ABC):
    """A connection's owner. Ready when its first session is set up, done when the last is over."""

    kind = "worker"

    def __init__(self, number: int, load: Load) -> None:
        self.number = number
        self.load = load
        self.options = load.options
        self.ready = asyncio.Event()
        self.is_done = False
        self.reconnects = 0
        self.times_blocked = 0
        self.flow_changes = 0
        self.blocked_seconds = 0.0
        self._wake = asyncio.Event()

    @abstractmethod
    async def session(self, client: Client) -> None:
        """Work until there is nothing left to do."""

    @abstractmethod
    def addresses(self) -> list[tuple[str, int]]: ...

    @abstractmethod
    def prepare_reconnect(self) -> None:
        """The connection is gone, with all that it knew."""

    async def run(self) -> None:
        addresses = self.addresses()
        attempt = 0
        while not await self._try(addresses[attempt % len(addresses)]):
            attempt += 1
            await asyncio.sleep(RECONNECT_SECONDS)
        self.is_done = True
        self.ready.set()

    async def _try(self, address: tuple[str, int]) -> bool:
        """Return True if the worker is finished, successfully or not."""
        client = Client(self.options, self)
        try:
            await client.open(address)
            await self.session(client)
        except ConnectionLost as lost:
            if self.load.over.is_set():
                return True
            self.load.report_error(f"{self.kind} {self.number}: {lost}", lost.code)
            if not self.options.reconnect:
                self.load.has_failed = True
                return True
            self.reconnects += 1
            self.prepare_reconnect()
            return False
        finally:
            self.times_blocked += client.times_blocked
            self.flow_changes += client.flow_changes
            await client.close()
        return True

    async def until_woken(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    def wake(self) -> None:
        self._wake.set()

    def on_lost(self) -> None:
        self._wake.set()
