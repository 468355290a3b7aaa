"""What a broker is loaded with: its queues, messages of all sizes, and what every client is like.

The clients themselves are in load_clients.py.
"""

from __future__ import annotations

import functools
import random
import struct
import threading
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
from acceptance.raw_methods import decode_properties, encode_method, method_name, shortstr
from broker_process import Address
from durability.ledger import Delivery, Ledger, Publication
from durability.mail import content_frames

KIB: Final = 1024
GENERATION_MESSAGES_MAX: Final = 1_000_000
ANSWERED_WITHIN_S: Final = 60.0
ENDED_WITHIN_S: Final = 90.0
FAN: Final = "fan"
RANKED: Final = "ranked"
AGEING: Final = "ageing"
CHURNED: Final = "churned"
TINY: Final = "tiny"
SHORT: Final = "short"
SHORT_LENGTH: Final = 40
PRIORITIES: Final = 4
LIFETIME_MS: Final = 4000

QUEUES: Final[dict[str, dict[str, Any]]] = {
    "plain-0": {},
    "plain-1": {},
    "lazy": {"x-queue-mode": "lazy"},
    RANKED: {"x-max-priority": PRIORITIES - 1},
    "ranked-lazy": {"x-max-priority": PRIORITIES - 1, "x-queue-mode": "lazy"},
    AGEING: {"x-message-ttl": LIFETIME_MS},
    "fan-0": {},
    "fan-1": {},
    "fan-2": {"x-queue-mode": "lazy"},
    CHURNED: {},
    TINY: {},
    SHORT: {"x-max-length": SHORT_LENGTH},
    "refusing": {"x-max-length": SHORT_LENGTH, "x-overflow": "reject-publish"},
}
FANNED: Final = tuple(queue for queue in QUEUES if queue.startswith("fan-"))
TARGETS: Final = (
    "plain-0", "plain-1", "lazy", RANKED, "ranked-lazy", AGEING, FAN, "refusing",
)  # fmt: skip
# Each has one consumer at most, or order could not be checked. TINY and two others only grow, and
# so does SHORT, or it could not be told what its limit has dropped.
CONSUMED: Final = tuple(q for q in QUEUES if q not in {CHURNED, TINY, SHORT})


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
        self._is_prepared = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Returns when it is ready to work: from then on the broker may go."""
        self._thread.start()
        while not self._is_prepared.wait(0.05) and self._thread.is_alive():
            pass

    def join(self) -> None:
        self._thread.join(ENDED_WITHIN_S)
        if self._thread.is_alive():
            self.failure = AssertionError("still waits for an answer")

    def _run(self) -> None:
        try:
            with RawClient(self._address).open() as client:
                self.prepare(client)
                self._is_prepared.set()
                self.work(client)
        except (ConnectionEnded, OSError) as end:
            self.end = end  # the broker is gone, or hung up: the ledger knows what that means
        except BaseException as failure:  # noqa: BLE001 - told by whoever waits for the thread
            self.failure = failure

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def prepare(self, client: RawClient) -> None:
        """What a broker that is not told to stop answers."""
        client.call(1, "confirm.select")

    def work(self, client: RawClient) -> None:
        raise NotImplementedError


def method_of(frame: Frame) -> str:
    """A broker that stops says so: to us that is the end."""
    name = method_name(frame.payload) if frame.type == METHOD else ""
    if name == "connection.close":
        raise ConnectionEnded
    return name
