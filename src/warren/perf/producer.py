"""Publishes as fast as the socket, the confirm window, the pace or the backlog allow.

A message carries the time it was published; when a pace is given and we are late, the time it
should have been, so that a stalled broker cannot hide its stall.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from enum import Enum, auto
from typing import Final

from pamqp.commands import Basic, Channel, Confirm

from warren.perf.client import Client
from warren.perf.load import Load, Worker
from warren.perf.options import numbered, share
from warren.perf.publishing import Publisher
from warren.perf.tally import Histogram, SequenceSet
from warren.wire.codec import OutputBuffer, PropertyBlock
from warren.wire.methods import encode_method

TURN_BYTES: Final = 65536
BURST_MAX: Final = 16
"""Messages that share a reading of the clock, which would cost more than the message."""
LATE_NS: Final = 1_000_000
TRANSIENT: Final = PropertyBlock(b"\x00\x00")
PERSISTENT: Final = PropertyBlock(b"\x10\x00\x02")


class Pause(Enum):
    """Why filling the output buffer ended."""

    SOCKET = auto()
    CONFIRMS = auto()
    PACE = auto()
    BACKLOG = auto()
    FINISHED = auto()


class Producer(Worker):
    kind = "producer"

    def __init__(self, number: int, load: Load, quota: int | None) -> None:
        super().__init__(number, load)
        options = self.options
        self.published = self.confirmed = self.nacked = self.returned = 0
        self.first_ns = self.last_ns = self.gap_ns = self.gap_at_ns = 0
        self.latency = Histogram()
        self.confirmed_sequences = SequenceSet()
        self._quota = quota
        self._publisher = Publisher(
            self._publish_methods(),
            PERSISTENT if options.persistent else TRANSIENT,
            (b"abcdefghijklmnopqrstuvwxyz" * (options.size // 26 + 1))[: options.size],
            number,
        )
        self._gap_ns = 1e9 / options.rate if options.rate > 0 else 0.0
        self._due_ns = 0
        self._last_confirm_ns = 0
        self._next_tag = self._lowest_tag = 1
        self._unconfirmed: dict[int, tuple[int, int]] = {}
        self._resend: deque[tuple[int, int]] = deque()

    def addresses(self) -> list[tuple[str, int]]:
        return self.options.addresses(for_consumer=False)

    def _publish_methods(self) -> list[bytes]:
        """The encoded basic.publish for each routing key, used in turn."""
        options = self.options
        if options.routing_key:
            keys = [numbered(options.routing_key, n) for n in range(max(options.rk_range, 1))]
        else:
            numbers = share(self.number, options.producers, options.queues)
            keys = [options.queue_name(number) for number in numbers]
        return [
            encode_method(Basic.Publish(0, options.exchange, key, options.mandatory))
            for key in keys
        ]

    async def session(self, client: Client) -> None:
        if self.options.confirm:
            await client.call(Confirm.Select(), Confirm.SelectOk)
        self.ready.set()
        await self.load.go.wait()
        if self.first_ns == 0:
            self.first_ns = time.monotonic_ns()
        while not self.load.over.is_set():
            client.check()
            await self._wait_while_blocked(client)
            pause = self._fill(client.output)
            client.flush()
            if self.load.backlog is not None:
                self.load.backlog.wake_consumers()
            if pause is Pause.FINISHED and not self._unconfirmed:
                break
            await self._rest(pause, client)
        # The answer proves that every publish before it was read and routed.
        await client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
        if not self.options.confirm or not self.last_ns:
            self.last_ns = time.monotonic_ns()

    async def _wait_while_blocked(self, client: Client) -> None:
        if not client.allowed.is_set():
            since = time.monotonic()
            await client.allowed.wait()
            self.blocked_seconds += time.monotonic() - since

    async def _rest(self, pause: Pause, client: Client) -> None:
        if pause is Pause.SOCKET:
            await client.drain()
            await asyncio.sleep(0)
        elif pause is Pause.PACE:
            await asyncio.sleep((self._due_ns - time.monotonic_ns()) / 1e9)
        elif pause is Pause.BACKLOG and self.load.backlog is not None:
            await self.load.backlog.has_room.wait()
        else:
            await self.until_woken()

    def _fill(self, output: OutputBuffer) -> Pause:
        window = self.options.confirm
        while output.size < TURN_BYTES:
            room = window - len(self._unconfirmed) if window else BURST_MAX
            if room <= 0:
                return Pause.CONFIRMS
            if self._resend:
                self._publish(output, *self._resend.popleft(), 1)
                continue
            now_ns = time.monotonic_ns()
            count, pause = self._allowed(now_ns)
            if count == 0:
                return pause
            if self._gap_ns and now_ns - self._due_ns > LATE_NS:
                now_ns = self._due_ns
            count = min(count, room)
            self._publish(output, now_ns, self.published, count)
            self.published += count
            if self.load.backlog is not None:
                self.load.backlog.published(count)
        return Pause.SOCKET

    def _allowed(self, now_ns: int) -> tuple[int, Pause]:
        """How many messages may go out now, and what to wait for if none."""
        left = BURST_MAX if self._quota is None else self._quota - self.published
        if self.load.is_publishing_over or left == 0:
            return 0, Pause.FINISHED
        if self.load.backlog is not None and not self.load.backlog.has_room.is_set():
            return 0, Pause.BACKLOG
        if self._gap_ns:
            self._due_ns = self.first_ns + int(self._gap_ns * self.published)
            return int(self._due_ns <= now_ns), Pause.PACE
        return min(left, BURST_MAX), Pause.SOCKET

    def _publish(self, output: OutputBuffer, stamp_ns: int, sequence: int, count: int) -> None:
        self._publisher.burst(output, stamp_ns, sequence, count)
        if self.options.confirm:
            for number in range(sequence, sequence + count):
                self._unconfirmed[self._next_tag] = (stamp_ns, number)
                self._next_tag += 1

    def on_confirm(self, tag: int, multiple: bool, is_ack: bool) -> None:
        now_ns = time.monotonic_ns()
        for each in range(self._lowest_tag, tag + 1) if multiple else (tag,):
            known = self._unconfirmed.pop(each, None)
            if known is None:
                continue
            stamp_ns, sequence = known
            if is_ack:
                self.confirmed += 1
                self.latency.add(max(now_ns - stamp_ns, 0))
                self.confirmed_sequences.add(sequence)
            else:
                self.nacked += 1
                if self.options.reconnect:
                    self._resend.append(known)
        if multiple:
            self._lowest_tag = max(self._lowest_tag, tag + 1)
        if is_ack:
            self._note_gap(now_ns)
        self.wake()

    def _note_gap(self, now_ns: int) -> None:
        if self._last_confirm_ns and now_ns - self._last_confirm_ns > self.gap_ns:
            self.gap_ns = now_ns - self._last_confirm_ns
            self.gap_at_ns = self._last_confirm_ns - self.load.started_ns
        self._last_confirm_ns = self.last_ns = now_ns

    def on_return(self) -> None:
        self.returned += 1

    def prepare_reconnect(self) -> None:
        self._resend.extendleft(reversed(self._unconfirmed.values()))
        self._unconfirmed.clear()
        self._next_tag = self._lowest_tag = 1
