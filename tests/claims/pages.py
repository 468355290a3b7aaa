"""Pages of memory: queues of one broker to fill, look at and drain, and the limit on memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from acceptance.actions import eventually
from acceptance.control import Control
from acceptance.management_client import Api
from acceptance.raw_client import RawClient
from broker_process import BrokerProcess
from durability.mail import (
    PERSISTENT_BLOCK,
    client_of,
    declare_in,
    look,
    numbered,
    publish_frames,
    ready,
    receive_mail,
    send,
)
from warren.management.page.tiers import tiers_of

WITHIN_S = 120.0
PIECE = 2_000


@dataclass(frozen=True)
class Watermark:
    """The memory limit of a broker; paging begins at half of it."""

    control: Control

    def set_bytes(self, limit: int) -> None:
        self.control.ok(f"set_vm_memory_high_watermark absolute {limit}")

    def reset(self) -> None:
        self.control.ok("set_vm_memory_high_watermark 0.4")


class Queue:
    """A durable queue, whose messages are numbered."""

    def __init__(
        self, broker: BrokerProcess, api: Api, name: str, arguments: dict[str, Any]
    ) -> None:
        self.broker = broker
        self.name = name
        self._api = api
        declare_in(broker, name, **arguments)

    @property
    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = self._api.must(self._api.get("queues", "/", self.name))
        return shown

    def tiers(self) -> tuple[int, int, int]:
        """Messages that are alpha, beta or gamma, and delta."""
        tiers = tiers_of(self.shown)
        assert tiers is not None
        return tiers.alpha, tiers.beta + tiers.gamma, tiers.delta

    def fill(self, count: int, size: int, delivery_mode: int = 2) -> None:
        send(self.broker, numbered(count, size), self.name, delivery_mode=delivery_mode)

    def expect_all(self, count: int, size: int) -> None:
        """Consume so many, in order."""
        with client_of(self.broker) as client:
            client.call(1, "basic.consume", queue=self.name, no_ack=True)
            for body in numbered(count, size):
                assert receive_mail(client).body == body

    @contextlib.contextmanager
    def holding_all(self) -> Iterator[RawClient]:
        """A client that has consumed all there is, acknowledged nothing, and consumes no more."""
        with client_of(self.broker) as client:
            look(client, self.name)
            yield client

    def set_mode(self, control: Control, mode: str) -> None:
        definition = f'{{"queue-mode":"{mode}"}}'
        control.ok("set_policy", self.name, f"^{self.name}$", definition)

    def clear_mode(self, control: Control) -> None:
        control.ok(f"clear_policy {self.name}")

    @staticmethod
    def flood(broker: BrokerProcess, queue: str, count: int, size: int) -> None:
        """Publish without confirms; all are in the queue when this returns."""
        with client_of(broker) as client:
            client.socket.settimeout(WITHIN_S)
            for start in range(0, count, PIECE):
                bodies = numbered(PIECE, size, start)
                frames = (publish_frames(b, PERSISTENT_BLOCK, routing_key=queue) for b in bodies)
                client.send_bytes(b"".join(frames))
            eventually(lambda: ready(client, queue) == count, WITHIN_S)
