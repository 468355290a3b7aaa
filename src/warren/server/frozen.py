"""What becomes of clients while their node may not act.

Publishers are held as by an alarm: connection.blocked says why, and after the thaw their publishes
go on as if nothing had been. Everything else a client asks for needs an answer, and a client that
gets none hangs. So requests wait for a while (`warren.metadata_timeout`), and then their channel
is closed with 506: nothing of what they asked for has happened, nor will it. What needs no majority
(acknowledgements, closing, prefetch) passes all along.

Channels do not wait for each other, but within one channel nothing overtakes: behind something
held everything is held.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from warren.channels.intake import Intake
from warren.flow.brake import Brake
from warren.flow.tenure import Tenure
from warren.model.errors import metadata_unreachable
from warren.model.logs import EventLog
from warren.wire.codec import Message, MethodFrame
from warren.wire.methods import method_ids

REASON: Final = "the majority of the metadata store is unreachable"

# By class and method: what neither moves a message nor promises anything.
_HARMLESS: Final = frozenset(
    {
        (20, 10), (20, 20), (20, 21), (20, 40), (20, 41),  # channel.open, flow, close
        (60, 10), (60, 30), (60, 31),  # basic.qos, cancel
        (60, 80), (60, 90), (60, 100), (60, 110), (60, 120),  # basic.ack, reject, recover, nack
        (85, 10), (90, 10), (90, 30),  # confirm.select, tx.select, tx.rollback
    }
)  # fmt: skip

_log = EventLog("cluster")


class FrozenNode:
    """Follows the node's tenure on behalf of its clients."""

    def __init__(self, tenure: Tenure, brake: Brake, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._tenure = tenure
        self._brake = brake
        self._waiting: set[asyncio.Future[None]] = set()
        self._frozen_at_ms = brake.clock.now_ms()
        tenure.followers.append(self)
        if tenure.is_frozen:
            brake.freeze(REASON)

    def frozen(self) -> None:
        self._frozen_at_ms = self._brake.clock.now_ms()
        self._brake.freeze(REASON)
        _log.warning(f"this node is frozen: {REASON}")

    def thawed(self) -> None:
        self._brake.thaw()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        took_ms = self._brake.clock.now_ms() - self._frozen_at_ms
        _log.info("node resumed after freeze", frozen_ms=took_ms)

    async def acting(self) -> None:
        """Returns at once, when the node may act again, or raises 506 after a while."""
        while not self._tenure.holds():
            thaw = asyncio.get_running_loop().create_future()
            self._waiting.add(thaw)
            try:
                async with asyncio.timeout(self.timeout_ms / 1000):
                    await thaw
            except TimeoutError:
                raise metadata_unreachable(REASON) from None
            finally:
                self._waiting.discard(thaw)


def pass_harmless(intake: Intake, events: list[Any]) -> list[Any]:
    """Work through what needs no majority; returns the rest, in order."""
    held: list[Any] = []
    busy: set[int] = set()
    for position, event in enumerate(events):
        if intake.is_suspended or intake.is_closed:
            held += events[position:]
            break
        number = event.channel
        if number in busy or (number == 0 and busy) or _needs_majority(intake, event):
            busy.add(number)
            held.append(event)
        else:
            intake.process([event], 0)
    return held


def _needs_majority(intake: Intake, event: Any) -> bool:
    channel = intake.channels.get(event.channel)
    if channel is None or channel.is_closing:
        return False
    if type(event) is MethodFrame:
        return method_ids(event.payload) not in _HARMLESS
    return type(event) is Message


class HeldRequests:
    """Of one connection: which channels wait for an answer, and until when."""

    __slots__ = ("_held", "_timeout_ms", "_waiting")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._held: set[int] = set()
        self._waiting: dict[int, tuple[tuple[int, int], int]] = {}

    def look_at(self, held: list[Any], now_ms: int) -> None:
        waiting: dict[int, tuple[tuple[int, int], int]] = {}
        for event in held:
            if type(event) is MethodFrame and event.channel not in waiting:
                new = (method_ids(event.payload), now_ms + self._timeout_ms)
                waiting[event.channel] = self._waiting.get(event.channel, new)
        self._waiting = waiting
        self._held = {event.channel for event in held}

    @property
    def due_ms(self) -> int | None:
        return min((due_ms for _, due_ms in self._waiting.values()), default=None)

    def fail_overdue(self, intake: Intake, now_ms: int) -> None:
        overdue = {n: ids for n, (ids, due_ms) in self._waiting.items() if due_ms <= now_ms}
        if overdue.pop(0, None) is not None:
            # The client wants to close the connection, and publishes are in the way.
            overdue = dict.fromkeys(self._held - {0}, (0, 0)) | overdue
        for number, ids in overdue.items():
            channel = intake.channels.get(number)
            if channel is not None and not channel.is_closing:
                intake.session.fail(number, metadata_unreachable(REASON), ids)
