"""Two nodes' ends of a link in one process: real queues, real frames, no socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from broker_world import BrokerWorld
from warren.cluster.link.channels import LinkChannel
from warren.cluster.link.client import LinkClient
from warren.cluster.link.control import Counted, MirrorNews, OfAsker, OpenQueue
from warren.cluster.link.publishes import LinkPublishes
from warren.cluster.link.remote_queue import RemoteQueue
from warren.cluster.link.server import LinkServer
from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, TurnClock
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings
from warren.wire.codec import FrameReader, Message, OutputBuffer, PropertyBlock

FRAME_MAX = 1 << 20
NO_PROPERTIES = PropertyBlock(b"\0\0")


def message(body: bytes) -> Message:
    return Message(b"\0\x01q", NO_PROPERTIES, body)


class Surroundings:
    peer = "asker"

    def __init__(self, world: BrokerWorld) -> None:
        self.output = OutputBuffer(FRAME_MAX, 1 << 30, lambda: None)
        self.turn_clock = TurnClock()
        self.vhosts = world.broker.vhosts
        self.reply_desk = AbstractQueue()
        self.due: list[LinkChannel] = []
        self.inquired_of: list[OfAsker] = []
        self.is_frozen = False
        self.revisions: list[int] = []
        self.heard: list[Counted | MirrorNews | bytes] = []
        """Tallies, news and frames of mirrored queues."""

    def answers_due(self, handle: LinkChannel) -> None:
        self.due.append(handle)

    def spawn(self, work: Coroutine[Any, Any, None]) -> object:
        return asyncio.get_running_loop().create_task(work)

    def make_inbox(self, queue: AbstractQueue, control: OpenQueue) -> LinkPublishes:
        return LinkPublishes(queue, control.origin)

    def becomes_master(self, control: OpenQueue, again: Callable[[OpenQueue], None]) -> bool:
        return False

    def inquired(self, control: OfAsker) -> None:
        self.inquired_of.append(control)

    def applied(self, revision: int) -> None:
        self.revisions.append(revision)

    def counted(self, news: Counted) -> None:
        self.heard.append(news)

    def mirror_frames(self, body: bytes) -> None:
        self.heard.append(body)

    def mirror_news(self, news: MirrorNews) -> None:
        self.heard.append(news)


class Outcomes:
    """A publisher that notes what it is told."""

    origin = None

    def __init__(self) -> None:
        self.confirms: list[int] = []
        self.refusals: list[int] = []

    def confirmed(self, sequence: int) -> None:
        self.confirms.append(sequence)

    def rejected(self, sequence: int) -> None:
        self.refusals.append(sequence)


class LinkWorld:
    """`move` carries frames both ways until nobody has anything to say."""

    def __init__(self, world: BrokerWorld) -> None:
        self.world = world
        self.inboxes: dict[AbstractQueue, LinkPublishes] = {}
        self.applied: list[int] = []
        self.asker = LinkClient("home", asyncio.get_running_loop().create_future)
        self.connect()

    def connect(self, life: str = "first") -> None:
        self.around = Surroundings(self.world)
        self.around.revisions = self.applied
        self.delegate = LinkServer(self.around, self.inboxes)
        self.asker_output = OutputBuffer(FRAME_MAX, 1 << 30, lambda: None)
        self._to_home = FrameReader(FRAME_MAX, FRAME_MAX)
        self._to_asker = FrameReader(FRAME_MAX, FRAME_MAX)
        self._to_asker.is_client = True
        self.asker.connected(self.asker_output, life)

    def cut(self) -> None:
        """Whatever is under way is lost."""
        self.asker.disconnected()
        self.delegate.close()

    def move(self) -> None:
        while self.to_home() | self.to_asker():
            pass

    def to_home(self) -> bool:
        data = b"".join(self.asker_output.take())
        self.delegate.process(self._to_home.feed(data))
        return bool(data)

    def to_asker(self) -> bool:
        due, self.around.due = self.around.due, []
        for handle in due:
            handle.flush()
        data = b"".join(self.around.output.take())
        self.asker.process(self._to_asker.feed(data))
        return bool(data)

    async def ask(self, question: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> Any:
        task = asyncio.ensure_future(question)
        async with asyncio.timeout(60):
            while not task.done():
                await asyncio.sleep(0.001)
                self.move()
        return task.result()

    async def declared(self, name: str = "q") -> tuple[Queue, RemoteQueue]:
        record = QueueRecord("/", name)
        queue = await self.world.vhost.declare_queue(record, False, "")
        return queue, RemoteQueue(record, QueueSettings(), self.asker)


class RemoteClient:
    """A client's channel on the asking node."""

    def __init__(self) -> None:
        self.output = OutputBuffer(FRAME_MAX, 1 << 30, lambda: None)
        self.deliveries = Deliveries(1, self.output, TurnClock(), MessageCounters())
        self._reader = FrameReader(FRAME_MAX, FRAME_MAX)
        self._reader.is_client = True

    def consumer(self, queue: RemoteQueue, no_ack: bool = False, prefetch: int = 0) -> Consumer:
        return Consumer(queue, self.deliveries, "tag", no_ack, prefetch)

    def received(self) -> list[Any]:
        return self._reader.feed(b"".join(self.output.take()))

    def bodies(self) -> list[bytes]:
        return [delivery.message.body for delivery in self.received()]
