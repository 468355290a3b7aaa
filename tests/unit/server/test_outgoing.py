"""Nothing that a client could act upon leaves a node whose time is up. Real sockets, a clock of
the test's own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from warren.flow.tenure import Tenure
from warren.server.flush_scheduler import FlushScheduler
from warren.server.outgoing import Outgoing

FRAME_MAX = 4_096
HARMLESS = b"heartbeats, errors"
PROMISE = b"deliveries, confirms"


@dataclass
class Line:
    """An outgoing and the client that reads what it writes."""

    tenure: Tenure
    turn: FlushScheduler
    outgoing: Outgoing
    reader: asyncio.StreamReader
    now_s: list[float]
    confirms_told: list[str] = field(default_factory=list)

    def sleep_too_long(self) -> None:
        """As a stopped process does: no timer runs, the clock goes on."""
        self.now_s[0] += 100.0

    def prove(self) -> None:
        self.tenure.extend(self.now_s[0] + 5.0)

    def flush(self) -> None:
        """A `Confirming`."""
        self.confirms_told.append("told")

    async def heard(self) -> bytes:
        """What the client has been sent by now: a mark goes behind it."""
        assert self.outgoing.transport is not None
        self.outgoing.transport.write(b"<mark>")
        return (await self.reader.readuntil(b"<mark>")).removesuffix(b"<mark>")


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    loop = asyncio.get_running_loop()
    here, there = socket.socketpair()
    for end in (here, there):
        end.setblocking(False)
    now_s = [100.0]
    tenure = Tenure(lambda: now_s[0])
    turn = FlushScheduler(loop, tenure)
    outgoing = Outgoing(FRAME_MAX, turn)
    tenure.extend(105.0)
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=here)
    outgoing.attach(transport)
    reader, writer = await asyncio.open_connection(sock=there)
    yield Line(tenure, turn, outgoing, reader, now_s)
    writer.close()
    transport.abort()


async def test_what_was_encoded_before_a_sleep_is_not_written_after_it(line: Line) -> None:
    line.outgoing.output.raw(PROMISE)
    line.sleep_too_long()
    line.turn.flush()
    assert await line.heard() == b""
    assert line.tenure.is_frozen


async def test_it_is_written_first_of_all_once_the_session_is_proved(line: Line) -> None:
    line.outgoing.output.raw(PROMISE)
    line.sleep_too_long()
    line.turn.flush()
    line.outgoing.output.raw(HARMLESS)
    line.turn.flush()
    assert await line.heard() == b"", "it cannot overtake"
    line.prove()
    assert await line.heard() == PROMISE + HARMLESS


async def test_after_a_lost_session_it_is_void_and_so_is_the_connection(line: Line) -> None:
    line.outgoing.output.raw(PROMISE)
    line.sleep_too_long()
    line.turn.flush()
    line.turn.forfeit()
    assert await line.reader.read() == b"", "closed, and nothing said"


async def test_a_connection_that_had_nothing_to_say_survives_a_lost_session(line: Line) -> None:
    line.sleep_too_long()
    assert not line.tenure.holds()
    line.turn.forfeit()
    line.prove()
    line.outgoing.output.raw(PROMISE)
    line.turn.flush()
    assert await line.heard() == PROMISE


async def test_a_freeze_in_good_order_holds_up_nothing_harmless(line: Line) -> None:
    line.tenure.freeze()
    line.outgoing.output.raw(HARMLESS)
    line.turn.flush()
    assert await line.heard() == HARMLESS
    assert line.outgoing.output.is_congested, "deliveries are held back"


async def test_confirms_wait_for_the_thaw(line: Line) -> None:
    line.outgoing.confirms_due(line)
    line.sleep_too_long()
    line.turn.flush()
    assert line.confirms_told == []
    line.prove()
    line.turn.flush()
    assert line.confirms_told == ["told"]
    assert not line.outgoing.output.is_congested, "deliveries go on"


async def test_a_connection_made_meanwhile_is_frozen_too(line: Line) -> None:
    line.tenure.freeze()
    other = Outgoing(FRAME_MAX, line.turn)
    assert line.outgoing.transport is not None
    other.attach(line.outgoing.transport)
    assert other.output.is_congested
    line.prove()
    assert not other.output.is_congested
    other.detach()


async def test_a_confirm_that_is_encoded_when_the_turn_ends_asks_for_no_other_turn() -> None:
    loop = CountingLoop()
    turn = FlushScheduler(loop)  # type: ignore[arg-type]
    outgoing = Outgoing(FRAME_MAX, turn)
    confirming = Encoding(outgoing)
    outgoing.confirms_due(confirming)
    outgoing.confirms_due(confirming)
    assert len(loop.calls) == 1
    loop.calls.pop()()
    assert confirming.times == 2
    assert loop.calls == [], "what was encoded went in the same turn"
    outgoing.output.raw(HARMLESS)
    assert len(loop.calls) == 1, "the next turn is asked for as before"


class CountingLoop:
    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.calls.append(callback)


class Encoding:
    """A `Confirming` that writes."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self.times = 0

    def flush(self) -> None:
        self.times += 1
        self._outgoing.output.raw(PROMISE)
