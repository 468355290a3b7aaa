"""The pulse of a link's protocol: a link that brings nothing is given up, one that lives is not."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from warren.cluster.reachability import SUSPECT_MS
from warren.server import link_protocol
from warren.server.flush_scheduler import FlushScheduler
from warren.server.link_protocol import PULSE_S, SILENT_PULSES_MAX, LinkProtocol

PULSE_HERE_S = 0.01
HELD_UP_S_MAX = 7.0
"""No cut holds a queue up longer: see docs/OPERATIONS.md."""
MACHINE: Any = SimpleNamespace(process=lambda events: None)


def link() -> LinkProtocol:
    return LinkProtocol(FlushScheduler(asyncio.get_running_loop()), 1_000_000, is_client=True)


def test_a_silent_node_is_put_out_in_time() -> None:
    noticed_s = (SILENT_PULSES_MAX + 1) * PULSE_S
    assert noticed_s + SUSPECT_MS / 1000 <= HELD_UP_S_MAX - 2, "two seconds are left to act"


async def test_a_link_that_brings_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_protocol, "PULSE_S", PULSE_HERE_S)
    ours, theirs = socket.socketpair()
    protocol, lost = link(), asyncio.get_running_loop().create_future()
    protocol.on_lost = lost.set_result
    await asyncio.get_running_loop().create_connection(lambda: protocol, sock=ours)
    protocol.begin(MACHINE)
    async with asyncio.timeout(30):
        assert await lost == f"silence for {SILENT_PULSES_MAX * PULSE_HERE_S:g} s"
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
