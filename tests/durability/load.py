"""Clients that use a broker in many ways at once until it is gone, and write everything down."""

from __future__ import annotations

import functools
import random
import struct
import threading
import time
from typing import Any, Final

from acceptance.raw_client import (
    BODY,
    HEADER,
    METHOD,
    ConnectionEnded,
    Frame,
    RawClient,
    encode_properties,
    frame_bytes,
)
from acceptance.raw_methods import decode_method, decode_properties, encode_method, shortstr
from broker_process import Address
from durability.ledger import Delivery, Ledger, Publication
from durability.mail import content_frames

KIB: Final = 1024
WINDOW: Final = 200
PREFETCH: Final = 60
GENERATION_MESSAGES_MAX: Final = 1_000_000
ENDED_WITHIN_S: Final = 40.0
FAN: Final = "fan"
RANKED: Final = "ranked"
AGEING: Final = "ageing"
CHURNED: Final = "churned"
PRIORITIES: Final = 4
LIFETIME_MS: Final = 4000

QUEUES: Final[dict[str, dict[str, Any]]] = {
    "plain-0": {},
    "plain-1": {},
    "lazy": {"x-queue-mode": "lazy"},
    RANKED: {"x-max-priority": PRIORITIES - 1},
    AGEING: {"x-message-ttl": LIFETIME_MS},
    "fan-0": {},
    "fan-1": {},
    "fan-2": {"x-queue-mode": "lazy"},
    CHURNED: {},
}
FANNED: Final = tuple(queue for queue in QUEUES if queue.startswith("fan-"))
TARGETS: Final = ("plain-0", "plain-1", "lazy", RANKED, AGEING, FAN)


def declare_all(client: RawClient) -> None:
    client.call(1, "exchange.declare", exchange=FAN, type="fanout", durable=True)
    for queue, arguments in QUEUES.items():
        client.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
    for queue in FANNED:
        client.call(1, "queue.bind", queue=queue, exchange=FAN)


def pick_size(chance: random.Random) -> int:
    """From nothing to a mebibyte, mostly small, often near the edges of what is embedded."""
    kind = chance.random()
    if kind < 0.05:
        return 0
    if kind < 0.30:
        return chance.randint(1, KIB)
    if kind < 0.95:  # they fill the journal
        return chance.randint(3500, 4100)
    if kind < 0.98:
        return chance.randint(4 * KIB, 64 * KIB)
    return chance.randint(64 * KIB, 300 * KIB if kind < 0.995 else 1024 * KIB)


@functools.cache
def properties_start(is_persistent: bool, priority: int, lifetime_ms: int | None) -> bytes:
    """All but the message id, which is the last of those we use."""
    values: dict[str, Any] = {
        "delivery_mode": 2 if is_persistent else 1,
        "priority": priority,
        "message_id": "",
    }
    if lifetime_ms is not None and lifetime_ms < LIFETIME_MS:
        values["expiration"] = str(lifetime_ms)
    return encode_properties(**values)[:-1]


@functools.cache
def publish_frame(exchange: str, routing_key: str) -> bytes:
    method = encode_method("basic.publish", exchange=exchange, routing_key=routing_key)
    return frame_bytes(METHOD, 1, method)


def message_frames(publication: Publication, exchange: str, routing_key: str) -> bytes:
    """Quickly: it is the clients that are slow here."""
    block = properties_start(
        publication.is_persistent, publication.priority, publication.lifetime_ms
    ) + shortstr(publication.id)
    return publish_frame(exchange, routing_key) + content_frames(publication.body, block)


def receive_delivery(client: RawClient, first: Frame, within_s: float) -> Delivery:
    """The rest of a message whose basic.deliver was just received."""
    tag_bytes = first.payload[4]
    redelivered = bool(first.payload[13 + tag_bytes])
    header = client.receive(within_s)
    assert header.type == HEADER, header
    (size,) = struct.unpack(">Q", header.payload[4:12])
    pieces, have = [], 0
    while have < size:
        frame = client.receive(within_s)
        assert frame.type == BODY, frame
        pieces.append(frame.payload)
        have += len(frame.payload)
    id_ = decode_properties(header.payload[12:]).get("message_id", "")
    return Delivery(id_, b"".join(pieces), redelivered)


class Client:
    """A thread that works until it is told to rest or the broker is gone."""

    def __init__(
        self, name: str, address: Address, ledger: Ledger, chance: random.Random, generation: int
    ) -> None:
        self.name = name
        self.failure: BaseException | None = None
        self.is_resting = False
        self.ledger = ledger
        self.chance = chance
        # Numbers go on rising over restarts, so that order is checked across them.
        self._number = generation * GENERATION_MESSAGES_MAX
        self._address = address
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(ENDED_WITHIN_S)
        if self._thread.is_alive():
            self.failure = AssertionError("still waits for an answer")

    def _run(self) -> None:
        try:
            with RawClient(self._address).open() as client:
                self.work(client)
        except (ConnectionEnded, OSError) as end:
            self.end = end  # the broker is gone, or hung up: the ledger knows what that means
        except BaseException as failure:  # noqa: BLE001 - told by whoever waits for the thread
            self.failure = failure

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def work(self, client: RawClient) -> None:
        raise NotImplementedError


def method_of(frame: Frame) -> str:
    """A broker that stops says so: to us that is the end."""
    name = decode_method(frame.payload).name if frame.type == METHOD else ""
    if name == "connection.close":
        raise ConnectionEnded
    return name


class Producer(Client):
    """Publishes to all queues with confirms, some messages to many queues at once."""

    def work(self, client: RawClient) -> None:
        client.call(1, "confirm.select")
        self._open: dict[int, tuple[Publication, tuple[str, ...]]] = {}
        self._sent = 0
        while not self.is_resting:
            count = self.chance.choice([1, 3, 50])
            client.send_bytes(b"".join(self._publish() for _ in range(count)))
            self._receive(client, open_max=WINDOW)
            if self.chance.random() < 0.05:
                time.sleep(0.01)
        self._receive(client, open_max=0)

    def _publish(self) -> bytes:
        target = self.chance.choice(TARGETS)
        lifetime_ms = None
        if target == AGEING:
            lifetime_ms = self.chance.choice([300, 1500, LIFETIME_MS])
        self._sent += 1
        publication = Publication(
            producer=self.name,
            number=self.next_number(),
            size=pick_size(self.chance),
            priority=self.chance.randrange(PRIORITIES) if target == RANKED else 0,
            is_persistent=self.chance.random() < 0.9,
            lifetime_ms=lifetime_ms,
        )
        queues = FANNED if target == FAN else (target,)
        to = (FAN, "") if target == FAN else ("", target)
        self.ledger.publish(publication, queues)
        self._open[self._sent] = (publication, queues)
        return message_frames(publication, *to)

    def _receive(self, client: RawClient, open_max: int) -> None:
        while len(self._open) > open_max:
            frame = client.receive(30)
            name = method_of(frame)
            if name in {"connection.blocked", "connection.unblocked"}:
                continue
            assert name in {"basic.ack", "basic.nack"}, name
            tag, multiple = struct.unpack(">Q?", frame.payload[4:13])
            assert tag in self._open, f"{name} for {tag}, which is not open"
            answered = [one for one in self._open if one <= tag] if multiple else [tag]
            for number in answered:
                publication, queues = self._open.pop(number)
                if name == "basic.ack":
                    self.ledger.confirm(publication, queues)


class Consumer(Client):
    """The only consumer of its queues: acknowledges most, requeues some, holds the rest."""

    queues: tuple[str, ...] = ()

    def work(self, client: RawClient) -> None:
        client.call(1, "basic.qos", prefetch_count=PREFETCH)
        for queue in self.queues:
            client.send(1, "basic.consume", queue=queue, consumer_tag=queue)
        held: dict[int, tuple[str, str]] = {}
        while not self.is_resting:
            try:
                frame = client.receive(0.2)
            except TimeoutError:
                continue
            if method_of(frame) == "basic.deliver":
                deliver = decode_method(frame.payload)
                delivery = receive_delivery(client, frame, 30)
                self.ledger.deliver(deliver.consumer_tag, delivery)
                held[deliver.delivery_tag] = (deliver.consumer_tag, delivery.id)
                self._decide(client, deliver.delivery_tag, held)

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


class Churner(Client):
    """Fills a queue of its own, and purges or deletes it."""

    def work(self, client: RawClient) -> None:
        client.call(1, "confirm.select")
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
        frame = client.receive(30)
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
        frame = client.receive(30)
        assert method_of(frame) == name, frame


def make_clients(
    address: Address, ledger: Ledger, chance: random.Random, generation: int
) -> list[Client]:
    """`generation`: how often the broker was started."""

    def dice() -> random.Random:
        return random.Random(chance.getrandbits(64))

    shared = [queue for queue in QUEUES if queue != CHURNED]
    chance.shuffle(shared)
    clients: list[Client] = [
        kind(name, address, ledger, dice(), generation)
        for kind, name in ((Producer, "p0"), (Producer, "p1"), (Churner, "churner"))
    ]
    for share in (shared[:3], shared[3:6]):  # two queues only grow
        consumer = Consumer(f"consumer of {share}", address, ledger, dice(), generation)
        consumer.queues = tuple(share)
        clients.append(consumer)
    return clients
