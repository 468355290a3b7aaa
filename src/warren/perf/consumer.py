"""Consumer of a load: counts what it receives, and acknowledges it."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from pamqp.commands import Basic

from warren.perf.client import CHANNEL, Client
from warren.perf.load import Load, Worker
from warren.perf.options import share
from warren.perf.tally import DeliveryTally
from warren.wire.codec import Delivery

BACKLOG_PREFETCH: Final = 200
"""With --backlog and no --prefetch: without a bound the backlog would wait in our own memory."""


class Consumer(Worker):
    kind = "consumer"

    def __init__(self, number: int, load: Load) -> None:
        super().__init__(number, load)
        self.tally = DeliveryTally(load.received)
        self._client: Client | None = None
        self._prefetch = self.options.prefetch
        if load.backlog is not None:
            self._prefetch = self._prefetch or BACKLOG_PREFETCH
            load.backlog.consumers.append(self._settle)
        self._ack_every = max(1, min(self.options.ack_every, self._prefetch or 1 << 16))
        self._unacked: deque[int] = deque()

    def addresses(self) -> list[tuple[str, int]]:
        return self.options.addresses(for_consumer=True)

    async def session(self, client: Client) -> None:
        self._client = client
        for number in share(self.number, self.options.consumers, self.options.queues):
            if self._prefetch:
                client.send(Basic.Qos(prefetch_count=self._prefetch))
            consume = Basic.Consume(
                queue=self.options.queue_name(number),
                consumer_tag=str(number),
                no_ack=self.options.autoack,
                nowait=True,
            )
            client.send(consume)
        # Its answer proves that the consumers before it were accepted.
        await client.call(Basic.Qos(prefetch_count=self._prefetch), Basic.QosOk)
        self.ready.set()
        while not self.load.over.is_set():
            client.check()
            await self.until_woken()
        self.acknowledge_rest()

    def prepare_reconnect(self) -> None:
        self._client = None
        self._unacked.clear()

    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        self.tally.record(deliveries, time.monotonic_ns(), self.options.copies)
        if not self.options.autoack:
            self._unacked.extend(delivery.delivery_tag for delivery in deliveries)
            self._settle()

    def _settle(self) -> None:
        """Acknowledge in steps of --ack-every, as far as the backlog to keep allows."""
        backlog, every, unacked = self.load.backlog, self._ack_every, self._unacked
        while len(unacked) >= every and self._client is not None:
            if backlog is not None:
                if backlog.depth - every < backlog.floor:
                    return
                backlog.settled(every)
            for _ in range(every - 1):
                unacked.popleft()
            self._client.output.ack(CHANNEL, unacked.popleft(), True)

    def acknowledge_rest(self) -> None:
        """Acknowledge what is too little for --ack-every, so that it does not wait for ever."""
        if self._unacked and self._client is not None:
            if self.load.backlog is not None:
                self.load.backlog.settled(len(self._unacked))
            self._client.output.ack(CHANNEL, self._unacked.pop(), True)
            self._unacked.clear()
