"""Clients that use a broker in many ways at once until it is gone, and write everything down."""

from __future__ import annotations

import random
import struct
import time
from typing import Any, Final

from acceptance.raw_client import Frame, RawClient
from acceptance.raw_methods import decode_method
from broker_process import Address
from durability.ledger import Ledger, Publication
from durability.load import (
    AGEING,
    ANSWERED_WITHIN_S,
    CHURNED,
    CONSUMED,
    FAN,
    FANNED,
    LIFETIME_MS,
    PRIORITIES,
    RANKED,
    SHORT,
    TARGETS,
    TINY,
    Client,
    message_frames,
    method_of,
    pick_size,
    receive_delivery,
)

WINDOW: Final = 200
PREFETCH: Final = 60
BURST: Final = 1500
BURST_CHANCE: Final = 0.02
FENCE_CHANCE: Final = 0.05
ROLLBACK_CHANCE: Final = 0.2
COMMITTED_TO: Final = ("plain-0", "lazy", FAN)


class Publishing(Client):
    """One that publishes with confirms, and knows what is not answered yet."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: dict[int, tuple[Publication, tuple[str, ...]]] = {}
        self._sent = 0

    def pick(self, target: str) -> Publication:
        """A message as it may be published to this queue, or to the exchange FAN."""
        lifetime_ms = None
        if target == AGEING:
            lifetime_ms = self.chance.choice([300, 1500, LIFETIME_MS])
        return Publication(
            producer=self.name,
            number=self.next_number(),
            size=self.chance.randint(0, 50) if target == TINY else pick_size(self.chance),
            priority=self.chance.randrange(PRIORITIES) if target.startswith(RANKED) else 0,
            # A transient one pushes another out of SHORT, and is gone itself after a restart.
            is_persistent=target in {TINY, SHORT} or self.chance.random() < 0.9,
            lifetime_ms=lifetime_ms,
        )

    def publish(self, target: str) -> bytes:
        """Noted as published, with its answer expected: its frames."""
        publication, queues = self.pick(target), queues_of(target)
        self._sent += 1
        self.ledger.publish(publication, queues)
        self._open[self._sent] = (publication, queues)
        return frames_to(target, publication)

    def answered(self, frame: Frame) -> list[int]:
        """The numbers of what this basic.ack or basic.nack is about."""
        tag, multiple = struct.unpack(">Q?", frame.payload[4:13])
        assert tag in self._open, f"an answer for {tag}, which is not open"
        numbers = [one for one in self._open if one <= tag] if multiple else [tag]
        for number in numbers:
            publication, queues = self._open.pop(number)
            if method_of(frame) == "basic.ack":
                self.ledger.confirm(publication, queues)
        return numbers


def queues_of(target: str) -> tuple[str, ...]:
    return FANNED if target == FAN else (target,)


def frames_to(target: str, publication: Publication) -> bytes:
    return message_frames(publication, *((FAN, "") if target == FAN else ("", target)))


class Producer(Publishing):
    """Publishes to all queues, some messages to many at once, and now and then very many."""

    targets: tuple[str, ...] = TARGETS

    def work(self, client: RawClient) -> None:
        while not self.is_resting:
            client.send_bytes(b"".join(map(self.publish, self._targets())))
            self._receive(client, open_max=WINDOW)
            if self.chance.random() < 0.05:
                time.sleep(0.01)
        self._receive(client, open_max=0)

    def _targets(self) -> list[str]:
        if self.chance.random() < BURST_CHANCE:  # so many that a segment of the index is full
            return [TINY] * BURST
        return self.chance.choices(self.targets, k=self.chance.choice([1, 3, 50]))

    def _receive(self, client: RawClient, open_max: int) -> None:
        while len(self._open) > open_max:
            frame = client.receive(ANSWERED_WITHIN_S)
            name = method_of(frame)
            if name in {"connection.blocked", "connection.unblocked"}:
                continue
            assert name in {"basic.ack", "basic.nack"}, name
            self.answered(frame)


class LoneProducer(Producer):
    """The only one to fill the short queue, so that it is known what that has room for."""

    targets = (*TARGETS, SHORT)


class Transactor(Client):
    """Publishes in transactions: what was committed is owed, what was not must not appear."""

    def prepare(self, client: RawClient) -> None:
        client.call(1, "tx.select")

    def work(self, client: RawClient) -> None:
        while not self.is_resting:
            targets = self.chance.sample(COMMITTED_TO, k=self.chance.randint(1, len(COMMITTED_TO)))
            work = [(target, self._pick()) for target in targets * self.chance.randint(1, 5)]
            client.send_bytes(b"".join(frames_to(*one) for one in work))
            if self.chance.random() < ROLLBACK_CHANCE:
                self._ask(client, "tx.rollback")
                continue
            for target, publication in work:
                self.ledger.publish(publication, queues_of(target))
            self._ask(client, "tx.commit")
            for target, publication in work:
                self.ledger.confirm(publication, queues_of(target))

    def _pick(self) -> Publication:
        return Publication(self.name, self.next_number(), pick_size(self.chance))

    @staticmethod
    def _ask(client: RawClient, method: str) -> None:
        client.send(1, method)
        while (name := method_of(client.receive(ANSWERED_WITHIN_S))) != f"{method}-ok":
            assert name in {"connection.blocked", "connection.unblocked"}, name


class Consumer(Publishing):
    """The only consumer of its queues: acknowledges most, requeues some, holds the rest.

    Now and then it publishes on the same channel: when that is confirmed, all that was
    acknowledged before is on the disk, too, and must not come back.
    """

    queues: tuple[str, ...] = ()

    def prepare(self, client: RawClient) -> None:
        super().prepare(client)
        client.call(1, "basic.qos", prefetch_count=PREFETCH)

    def work(self, client: RawClient) -> None:
        self._unfenced: list[tuple[str, str]] = []
        self._fenced: dict[int, list[tuple[str, str]]] = {}
        for queue in self.queues:
            client.send(1, "basic.consume", queue=queue, consumer_tag=queue)
        held: dict[int, tuple[str, str]] = {}
        while not self.is_resting:
            try:
                frame = client.receive(0.2)
            except TimeoutError:
                continue
            name = method_of(frame)
            if name in {"basic.ack", "basic.nack"}:
                self._fences_answered(frame, name == "basic.ack")
            elif name == "basic.deliver":
                deliver = decode_method(frame.payload)
                delivery = receive_delivery(client, frame, ANSWERED_WITHIN_S)
                self.ledger.deliver(deliver.consumer_tag, delivery)
                held[deliver.delivery_tag] = (deliver.consumer_tag, delivery.id)
                self._decide(client, deliver.delivery_tag, held)
                if self.chance.random() < FENCE_CHANCE:
                    client.send_bytes(self._fence())

    def _fence(self) -> bytes:
        """To a queue that nobody consumes from: so it is not confirmed before it is written."""
        frames = self.publish(TINY)
        self._fenced[self._sent], self._unfenced = self._unfenced, []
        return frames

    def _fences_answered(self, frame: Frame, is_safe: bool) -> None:
        for number in self.answered(frame):
            for queue, id_ in self._fenced.pop(number) if is_safe else ():
                self.ledger.settle(queue, id_)

    def _decide(self, client: RawClient, tag: int, held: dict[int, tuple[str, str]]) -> None:
        kind = self.chance.random()
        if kind < 0.60:
            self._settle(held, [tag])
            client.send(1, "basic.ack", delivery_tag=tag)
        elif kind < 0.62:
            self._settle(held, [one for one in held if one <= tag])
            client.send(1, "basic.ack", delivery_tag=tag, multiple=True)
        elif kind < 0.67:
            self._settle(held, [tag])
            client.send(1, "basic.reject", delivery_tag=tag)
        elif kind < 0.75:
            del held[tag]
            client.send(1, "basic.nack", delivery_tag=tag, requeue=True)

    def _settle(self, held: dict[int, tuple[str, str]], tags: list[int]) -> None:
        for tag in tags:
            queue, id_ = held.pop(tag)
            self.ledger.acknowledge(queue, [id_])
            self._unfenced.append((queue, id_))


class Churner(Client):
    """Fills a queue of its own, and purges or deletes it."""

    def work(self, client: RawClient) -> None:
        while not self.is_resting:
            for _ in range(self.chance.randint(1, 60)):
                self._publish(client)
            if self.chance.random() < 0.5:
                self._purge(client)
            else:
                self._replace(client)

    def _publish(self, client: RawClient) -> None:
        publication = Publication(self.name, self.next_number(), pick_size(self.chance))
        self.ledger.publish(publication, [CHURNED])
        client.send_bytes(message_frames(publication, "", CHURNED))
        frame = client.receive(ANSWERED_WITHIN_S)
        if method_of(frame) == "basic.ack":
            self.ledger.confirm(publication, [CHURNED])

    def _purge(self, client: RawClient) -> None:
        self.ledger.acknowledge(CHURNED, list(self.ledger.queues[CHURNED]))
        client.send(1, "queue.purge", queue=CHURNED)
        self._await(client, "queue.purge-ok")

    def _replace(self, client: RawClient) -> None:
        self.ledger.acknowledge(CHURNED, list(self.ledger.queues[CHURNED]))
        client.send(1, "queue.delete", queue=CHURNED)
        self._await(client, "queue.delete-ok")
        self.ledger.forget(CHURNED)
        client.send(1, "queue.declare", queue=CHURNED, durable=True)
        self._await(client, "queue.declare-ok")

    @staticmethod
    def _await(client: RawClient, name: str) -> None:
        frame = client.receive(ANSWERED_WITHIN_S)
        assert method_of(frame) == name, frame


def make_clients(
    address: Address, ledger: Ledger, chance: random.Random, generation: int
) -> list[Client]:
    """`generation`: how often the broker was started."""

    def dice() -> random.Random:
        return random.Random(chance.getrandbits(64))

    shared = chance.sample(CONSUMED, k=len(CONSUMED))
    kinds = (
        (LoneProducer, "p0"),
        (Producer, "p1"),
        (Transactor, "transactor"),
        (Churner, "churner"),
    )
    clients: list[Client] = [
        kind(name, address, ledger, dice(), generation) for kind, name in kinds
    ]
    for share in (shared[:4], shared[4:8]):  # the others only grow
        consumer = Consumer(f"consumer of {share}", address, ledger, dice(), generation)
        consumer.queues = tuple(share)
        clients.append(consumer)
    return clients
