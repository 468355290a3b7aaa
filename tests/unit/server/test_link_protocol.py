"""The pulse of a link's protocol: a link that brings nothing is given up, one that lives is not."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from warren.model.limits import MIRROR_TIMEOUT_MS
from warren.server import link_protocol
from warren.server.flush_scheduler import FlushScheduler
from warren.server.link_protocol import (
    PULSE_S,
    SILENT_PULSES_MAX,
    LinkProtocol,
    silent_pulses_max,
)

PULSE_HERE_S = 0.01
MACHINE: Any = SimpleNamespace(process=lambda events: None)


def link() -> LinkProtocol:
    return LinkProtocol(FlushScheduler(asyncio.get_running_loop()), 1_000_000, is_client=True)


@pytest.mark.parametrize(
    ("limit_ms", "pulses"), [(1_000, 2), (2_000, 3), (MIRROR_TIMEOUT_MS, 5), (60_000, 5)]
)
def test_a_silent_link_is_given_up_before_its_node_is_expelled(limit_ms: int, pulses: int) -> None:
    """So another link may be made in time; the shortest limit leaves none."""
    assert silent_pulses_max(limit_ms) == pulses
    assert pulses * PULSE_S * 1000 <= limit_ms


async def test_a_link_that_brings_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_protocol, "PULSE_S", PULSE_HERE_S)
    ours, theirs = socket.socketpair()
    protocol, lost = link(), asyncio.get_running_loop().create_future()
    protocol.on_lost = lost.set_result
    await asyncio.get_running_loop().create_connection(lambda: protocol, sock=ours)
    protocol.begin(MACHINE)
    async with asyncio.timeout(30):
        assert await lost == f"silence for {SILENT_PULSES_MAX * PULSE_HERE_S:g} s"
    assert protocol.silent_ms == SILENT_PULSES_MAX * PULSE_HERE_S * 1000
    theirs.close()


async def test_two_ends_that_have_nothing_to_say_keep_their_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_protocol, "PULSE_S", PULSE_HERE_S)
    losses: list[str] = []
    for end in socket.socketpair():
        protocol = link()
        protocol.on_lost = losses.append
        await asyncio.get_running_loop().create_connection(lambda made=protocol: made, sock=end)
        protocol.begin(MACHINE)
    await asyncio.sleep(20 * SILENT_PULSES_MAX * PULSE_HERE_S)
    assert losses == []
