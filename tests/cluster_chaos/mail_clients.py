"""Publishers with confirms and consumers, on durable queues with homes all over the cluster."""

from __future__ import annotations

import struct
from collections import deque
from itertools import islice
from typing import Any, Final

from acceptance.raw_client import BODY, HEADER, METHOD, Frame, encode_properties
from acceptance.raw_methods import decode_method
from cluster_chaos.clients import ChaosClient
from cluster_chaos.order import Order
from cluster_chaos.talking import ANSWER_S_MAX, ConnectionClosed, Hangs, Talk

WINDOW: Final = 50
PREFETCH: Final = 20
# Publishers wait for consumers, so that emptying the queues in the end takes no longer than a run.
BACKLOG_MAX: Final = 5_000
KEPT_MAX: Final = 300
"""By each publisher, until it may fill them again."""
KEPT_SHARE: Final = 0.2


class Publisher(ChaosClient):
    """To each queue by its name, never the same message twice."""

    queues: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """These get a few messages only, since nobody may consume them for a while."""
    prioritised: tuple[str, ...] = ()
    """In these, each priority has an order of its own."""
    pause_s = 0.05

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._number = 0
        self._connections = 0
        self.kept_so_far = 0
        self._sent = 0
        self._open: dict[int, str] = {}

    def prepare(self, talk: Talk) -> None:
        self._sent = 0
        self._connections += 1
        self._open.clear()  # nobody will answer for them
        talk.ask("confirm.select")

    def step(self, talk: Talk) -> None:
        if self.expected.backlog() < BACKLOG_MAX:
            for _ in range(self.chance.choice([1, 5, 30])):
                self._publish(talk, self._choose())
        self._answers(talk, WINDOW)

    def _choose(self) -> str:
        if self.kept and self.kept_so_far < KEPT_MAX and self.chance.random() < KEPT_SHARE:
            self.kept_so_far += 1
            return self.chance.choice(self.kept)
        return self.chance.choice(self.queues)

    def settle(self, talk: Talk) -> None:
        self._answers(talk, 0)

    def _publish(self, talk: Talk, queue: str) -> None:
        self._number += 1
        self._sent += 1
        priority = self.chance.randrange(4)
        stream = f"{queue}/{self.name}.{self._connections}"
        if queue in self.prioritised:
            stream += f".{priority}"
        id_ = f"{stream}.{self._number}"
        self._open[self._sent] = id_
        self.expected.published(id_)
        body = id_.encode() + b" " * self.chance.choice([0, 1000])
        properties = encode_properties(delivery_mode=2, priority=priority)
        talk.client.publish(1, body, properties, routing_key=queue, mandatory=True)

    def _answers(self, talk: Talk, open_max: int) -> None:
        waited_s = 0
        while len(self._open) > open_max:
            frame = talk.receive(1.0)
            waited_s = 0 if frame is not None else waited_s + 1
            if waited_s > ANSWER_S_MAX:
                raise Hangs(f"publishes are not answered: {dict(islice(self._open.items(), 5))}")
            if frame is not None:
                self.take(talk, frame)

    def take(self, talk: Talk, frame: Frame) -> None:
        if frame.type == METHOD:
            self._answered(frame)

    def _answered(self, frame: Frame) -> None:
        method = decode_method(frame.payload)
        if method.name == "basic.return":
            self.expected.complain(f"{self.name}: returned with {method.reply_text}: {method}")
        if method.name not in {"basic.ack", "basic.nack"}:
            return
        tags = [t for t in self._open if t <= method.delivery_tag] if method.multiple else [
            method.delivery_tag
        ]  # fmt: skip
        for tag in tags:
            id_ = self._open.pop(tag, None)
            if id_ is None:
                self.expected.complain(f"{self.name}: an answer for {tag}, which is not open")
            elif method.name == "basic.ack":
                self.expected.confirmed(id_)
            else:
                self._nacked(id_)

    def _nacked(self, id_: str) -> None:
        self.expected.count("nacked")
        if self.expected.is_calm:
            self.expected.complain(f"{id_} was nacked though nothing was done")
        if not self.expected.may_nack:
            self.expected.complain(f"{id_} was nacked though a mirror in sync was there")


class Consumer(ChaosClient):
    """Acknowledges most, requeues some; consumes again when it was cancelled."""

    queues: tuple[str, ...] = ()
    hurry = False
    """Take all there is and acknowledge it."""
    prefetch = PREFETCH
    unsettled = 0
    """So many deliveries are always left open."""

    def prepare(self, talk: Talk) -> None:
        self._header: tuple[int, bool, int] | None = None
        self._body = b""
        self._unsettled: deque[int] = deque()
        self._order = Order()
        talk.ask("basic.qos", prefetch_count=self.prefetch)
        for queue in self.queues:  # the answer to one may come after deliveries of another
            talk.send("basic.consume", queue=queue, consumer_tag=queue)

    def step(self, talk: Talk) -> None:
        if self.hurry:
            self._settle(talk, 0)
        frame = talk.receive(0.2)
        while frame is not None:
            self.take(talk, frame)
            frame = talk.receive(0.01) if self.gate.is_open else None

    def take(self, talk: Talk, frame: Frame) -> None:
        if frame.type == METHOD:
            method = decode_method(frame.payload)
            if method.name == "basic.deliver":
                self._header = (method.delivery_tag, bool(method.redelivered), -1)
                self._body = b""
            elif method.name == "basic.cancel":
                self.expected.count("consumers cancelled")
                raise CancelledByBroker(method)
        elif self._header is not None:
            self._content(talk, frame)

    def _content(self, talk: Talk, frame: Frame) -> None:
        assert self._header is not None
        tag, redelivered, size = self._header
        if frame.type == HEADER:
            size = int(struct.unpack(">Q", frame.payload[4:12])[0])
            self._header = (tag, redelivered, size)
        elif frame.type == BODY:
            self._body += frame.payload
        if len(self._body) == size:
            self._header = None
            self._received(self._body.decode().rstrip(), redelivered)
            self._unsettled.append(tag)
            self._settle(talk, 0 if self.hurry else self.unsettled)

    def _received(self, id_: str, is_redelivered: bool) -> None:
        self.expected.received(id_, is_redelivered)
        problem = self._order.broken_by(id_, is_redelivered)
        if problem:
            self.expected.count("out of order")
            self.expected.complain(f"{self.name} at {self.node.name}: {problem}")

    def _settle(self, talk: Talk, left: int) -> None:
        """All but the last few, so that there is always something that a failover gives back."""
        while len(self._unsettled) > left:
            tag = self._unsettled.popleft()
            if self.hurry or self.chance.random() < 0.95:
                talk.send("basic.ack", delivery_tag=tag)
            else:
                talk.send("basic.nack", delivery_tag=tag, requeue=True)


class Emptier(Consumer):
    """Takes nothing while it rests."""

    def settle(self, talk: Talk) -> None:
        self._hang_up()


class CancelledByBroker(ConnectionClosed):
    """A queue is gone for the moment: start anew, perhaps at another node."""

    def __init__(self, cancel: Any) -> None:
        Exception.__init__(self, f"consumer of {cancel.consumer_tag} was cancelled")
        self.code = 0
