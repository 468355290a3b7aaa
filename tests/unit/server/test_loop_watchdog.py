"""The watchdog of the event loop: long turns are counted, and told with what ran."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import pytest

from warren.server.loop_watchdog import (
    BEAT_S,
    DOZE_AFTER_BEATS,
    DOZE_S,
    LONG_TURN_S,
    LoopWatchdog,
    _running,
)


def _blocked_for(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


async def test_a_long_turn_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = LoopWatchdog()
    with caplog.at_level(logging.WARNING, "warren.loop"), watchdog:
        for _ in range(2):
            await asyncio.sleep(0.1)
            _blocked_for(3 * LONG_TURN_S)
        await asyncio.sleep(0.2)
    assert watchdog.long_turns >= 2
    assert watchdog.long_turns_s > 2 * LONG_TURN_S
    lines = [record for record in caplog.records if record.name == "warren.loop"]
    assert [line.getMessage() for line in lines] == ["event loop turn took long"]
    assert lines[0].facts["took_ms"] >= LONG_TURN_S * 1000  # type: ignore[attr-defined]


async def test_an_idle_loop_is_seldom_woken_and_a_long_turn_after_a_read_is_still_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[Callable[[], None]] = []
    watchdog = LoopWatchdog(asked.append)
    with caplog.at_level(logging.WARNING, "warren.loop"), watchdog:
        await asyncio.sleep(2 * DOZE_AFTER_BEATS * BEAT_S)
        assert watchdog.is_dozing
        beats = watchdog.beats
        await asyncio.sleep(DOZE_S / 2)
        assert watchdog.beats - beats <= 1
        (read,) = asked
        read()
        _blocked_for(3 * LONG_TURN_S)
        await asyncio.sleep(2 * BEAT_S)
    assert watchdog.long_turns >= 1, "on a busy machine a turn may take long by itself"
    assert watchdog.long_turns_s > 2 * LONG_TURN_S
    assert any(record.name == "warren.loop" for record in caplog.records)


def test_what_runs_is_named_by_the_first_and_the_last_function_of_warren() -> None:
    scope = {"__name__": "warren.server.process", "sys": __import__("sys")}
    exec("def serve(inner): return inner()", scope)
    inner = {"__name__": "warren.channels.session", "sys": __import__("sys")}
    exec("def handle(): return nack()\ndef nack(): return sys._getframe()", inner)
    frame = scope["serve"](inner["handle"])  # type: ignore[operator]
    assert _running(frame) == "channels.session.nack<channels.session.handle"
    assert _running(None) == ""
