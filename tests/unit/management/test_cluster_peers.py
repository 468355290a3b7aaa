"""Requests that need other nodes take a place each, give it back, and do not wait for ever."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warren.management.cluster import peers as peers_module
from warren.management.cluster.peers import Peers, PeerSilent, Question
from warren.management.errors import Refusal

QUESTION = Question("guest", "GET", "/api/x")


def request(room: asyncio.Semaphore | None) -> Peers:
    """At a node without others: asking any fails at once, which makes no difference here."""
    return Peers(cast("Any", SimpleNamespace(cluster=None)), room)


async def test_all_questions_of_a_request_take_one_place_also_when_there_was_none() -> None:
    room = asyncio.Semaphore(1)
    first, second = request(room), request(room)
    assert await first.ask_each({"a": QUESTION, "b": QUESTION}) == []
    with pytest.raises(PeerSilent):
        await first.ask("a", QUESTION)
    waiting = asyncio.create_task(second.ask_each({"a": QUESTION, "b": QUESTION}))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.leave()
    assert await waiting == []
    assert room.locked(), "the second request has the only place"
    second.leave()
    second.leave()
    await room.acquire()
    assert room.locked(), "it was given back once"


async def test_a_request_without_a_place_is_refused_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers_module, "ANSWER_S_MAX", 0.01)
    with pytest.raises(Refusal) as refused:
        await request(asyncio.Semaphore(0)).ask("a", QUESTION)
    assert refused.value.status == 503


async def test_what_a_peer_asks_needs_no_place() -> None:
    assert await request(None).ask_each({"a": QUESTION}) == []
