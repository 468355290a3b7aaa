"""A broker without sockets for tests: the real store on a real disk, real queues, manual time."""

from __future__ import annotations

import itertools
from pathlib import Path

from manual_clock import ManualClock
from warren.auth.access import AccessControl
from warren.broker.broker import Broker
from warren.broker.placement import SingleNode
from warren.broker.vhost import VirtualHost
from warren.metadata.sqlite import SqliteStore
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, TurnClock
from warren.queues.host import DeathReason
from warren.queues.memory_backing import MemoryBacking
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import Message, OutputBuffer, PropertyBlock


class RecordingHost:
    """Notes which queues asked to be deleted; dead letters go nowhere."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.turn_clock = TurnClock()
        self.unused_queues: list[Queue] = []
        self.expired_queues: list[Queue] = []

    def dead_letter(self, queue: Queue, messages: list[Message], reason: DeathReason) -> None:
        pass

    def unused(self, queue: Queue) -> None:
        self.unused_queues.append(queue)

    def expired(self, queue: Queue) -> None:
        self.expired_queues.append(queue)


class BrokerWorld:
    """`async with BrokerWorld(directory) as world`; enter another one there to restart it."""

    def __init__(self, directory: Path) -> None:
        self.host = RecordingHost()
        self.store = SqliteStore(directory / "metadata.db")
        self._numbers = itertools.count()
        self.broker = Broker(
            self.store,
            AccessControl(),
            SingleNode(self._make_queue),
            self._new_token,
            self.host.clock,
        )

    async def __aenter__(self) -> BrokerWorld:
        await self.store.open()
        await self.broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.broker.stop()
        await self.store.close()

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    def _make_queue(self, record: QueueRecord, settings: QueueSettings) -> Queue:
        return Queue(record, settings, MemoryBacking(), self.host)

    def _new_token(self) -> str:
        return f"{next(self._numbers):022d}"


def publish_to(queue: Queue, body: bytes = b"m") -> None:
    queue.publish(Message(b"\0\0", PropertyBlock(b"\0\0"), body), None, 0)


def add_consumer(queue: Queue) -> Consumer:
    output = OutputBuffer(131_072, 1_048_576, lambda: None)
    consumer = Consumer(
        queue, Deliveries(1, output, TurnClock(), MessageCounters()), "tag", False, 0
    )
    queue.add_consumer(consumer)
    return consumer
