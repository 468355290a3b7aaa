"""What clients see when one node of three is killed that has very many things.

The first figure is the time until every mirrored queue has a master that confirms again: a message
is published to each right after the kill, and again to each that is answered by a nack. The second
is the time until all clients of the killed node have a consumer again; they connect to the others
at once, and are refused the queues that ended with the node, which are not mirrored.
"""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pamqp.commands import Basic, Confirm

from bench.client import Client, encode
from bench.many_subjects import Subject
from bench.many_things import Crowd

CONFIRM_S_MAX: Final = 120.0
AGAIN_S: Final = 0.1
ACK, NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
HEADER_FRAME: Final = b"\x02\x00\x01" + (15).to_bytes(4, "big")
HEADER: Final = HEADER_FRAME + b"\x00\x3c\x00\x00" + bytes(7) + b"\x01\x10\x00\x02\xce"
BODY: Final = b"\x03\x00\x01\x00\x00\x00\x01x\xce"


@dataclass(frozen=True)
class Failover:
    masters_s: float
    clients_s: float
    clients: int
    refused: int


def fail_over(subject: Subject, mirrored: Sequence[str], clients: Crowd) -> Failover:
    publisher = Publisher(subject.ports[1])
    publisher.publish_to_all(mirrored)  # so that all of them, and the routes to them, are in use
    began = time.monotonic()
    subject.kill(0)
    publisher.publish_to_all(mirrored)
    masters_s = time.monotonic() - began
    news = clients.news()
    return Failover(masters_s, news["seconds"], int(news["lost"]), int(news["refused"]))


class Publisher:
    """Publishes with confirms, again and again until each has been confirmed."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)
        self._client.send(Confirm.Select())
        self._client.frame()
        self._queue_by_tag: dict[int, str] = {}
        self._tag = 0

    def publish_to_all(self, queues: Sequence[str]) -> None:
        deadline = time.monotonic() + CONFIRM_S_MAX
        wanting = list(queues)
        while wanting or self._queue_by_tag:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(self._queue_by_tag)} queues do not confirm")
            self._publish(wanting)
            wanting = self._refused()
            if wanting:
                time.sleep(AGAIN_S)

    def _publish(self, queues: Sequence[str]) -> None:
        output = bytearray()
        for queue in queues:
            self._tag += 1
            self._queue_by_tag[self._tag] = queue
            output += encode(Basic.Publish(exchange="", routing_key=queue)) + HEADER + BODY
        self._client.socket.sendall(output)

    def _refused(self) -> list[str]:
        """Wait for an answer, and return the queues that took nothing."""
        refused: list[str] = []
        if not select.select([self._client.socket], [], [], CONFIRM_S_MAX)[0]:
            return refused
        payload = self._client.frame()
        tag, is_multiple = int.from_bytes(payload[4:12], "big"), bool(payload[12] & 1)
        tags = [t for t in self._queue_by_tag if t <= tag] if is_multiple else [tag]
        queues = [self._queue_by_tag.pop(t) for t in tags]
        if payload[:4] == NACK:
            refused = queues
        elif payload[:4] != ACK:
            raise RuntimeError(f"a publish was answered with {payload!r}")
        return refused
