"""The pulse of a link's protocol: a link that brings nothing is given up, one that lives is not."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from certificates import Authority
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
    ("limit_ms", "pulses"), [(1_000, 2), (MIRROR_TIMEOUT_MS, 3), (3_000, 5), (60_000, 5)]
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
    assert protocol.silent_ms == (SILENT_PULSES_MAX + 0.5) * PULSE_HERE_S * 1000
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


async def linked_over_tls(directory: Path, version: ssl.TLSVersion) -> tuple[bytes, bytes]:
    """Return the bindings of both ends of one connection."""
    loop, shown = asyncio.get_running_loop(), Authority(directory).issue("node")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certfile, shown.keyfile)
    context.minimum_version = context.maximum_version = version
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    ours, theirs = link(), link()
    listening = await loop.create_server(lambda: theirs, "127.0.0.1", 0, ssl=context)
    await loop.create_connection(lambda: ours, *listening.sockets[0].getsockname()[:2], ssl=asking)
    async with asyncio.timeout(30):
        while not theirs.binding:  # noqa: ASYNC110 - an attribute of the code under test
            await asyncio.sleep(0.01)
    for end in (ours, theirs):
        end.abort("done")
    listening.close()
    return ours.binding, theirs.binding


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_ends_of_a_tls_connection_have_one_binding_and_other_connections_another(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    first = await linked_over_tls(tmp_path / "first", version)
    second = await linked_over_tls(tmp_path / "second", version)
    assert first[0] == first[1]
    assert second[0] == second[1]
    assert first[0] != second[0]
    assert len(first[0]) >= 12


async def test_a_link_that_is_turned_away_before_it_has_a_socket_is_closed_when_it_has_one() -> (
    None
):
    ours, theirs = socket.socketpair()
    protocol, lost = link(), asyncio.get_running_loop().create_future()
    protocol.on_lost = lost.set_result
    protocol.turn_away("too many")
    await asyncio.get_running_loop().create_connection(lambda: protocol, sock=ours)
    async with asyncio.timeout(30):
        assert await lost == "too many"
    assert b"too many" in theirs.recv(4096)
    theirs.close()
