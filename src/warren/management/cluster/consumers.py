"""Who consumes from a queue, wherever they are connected, and which of them is the active one.

A consumer is known in full where its client is connected; the master of its queue knows it by the
name that the link has for it. So the master asks all nodes for their consumers of a queue, and they
ask it which of theirs, if any, is the single active one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from warren.cluster.link.consumer import LinkConsumer
from warren.cluster.link.remote_queue import RemoteQueue
from warren.management.caller import proof_of
from warren.management.cluster.masters import master_node_of
from warren.management.cluster.peers import PeerAnswer, PeerSilent, Question
from warren.management.json_types import Json
from warren.management.sorting import in_slices
from warren.management.views.channels import ConsumerPlace, consumers_of, show_consumer, takes_turns
from warren.queues.boundary import AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.queue import Queue
from warren.streams.queue import StreamQueue

if TYPE_CHECKING:
    from warren.management.call import Call

CONNECTIONS_AT_ONCE_MAX: Final = 500
# Parts of the list of consumers: those of the queue that the body names, and which of the asking
# node's are the active ones of the queues that the body names.
OF_QUEUE: Final = "consumers of a queue"
ACTIVE: Final = "active consumers"
_OK: Final = 200


async def consumers_here(call: Call, vhost: str, queue: str) -> list[Json]:
    found: list[ConsumerPlace] = []
    async for connections in in_slices(call.node.open_connections(), CONNECTIONS_AT_ONCE_MAX):
        for connection in connections:
            if connection.vhost.name == vhost:
                places = consumers_of(connection)
                found += [place for place in places if place.consumer.queue.record.name == queue]
    active = await active_elsewhere(call, (place.consumer for place in found))
    return [show_consumer(call.node, place, active) for place in found]


async def consumers_everywhere(call: Call, queue: Queue) -> list[Json]:
    """To be asked at the master of the queue."""
    record = queue.record
    shown = await consumers_here(call, record.vhost, record.name)
    if len(shown) == queue.consumer_count:
        return shown
    path = f"/api/consumers/{quote(record.vhost, safe='')}"
    question = Question(
        call.user.name,
        "GET",
        path,
        headers=proof_of(call.user),
        body=record.name.encode(),
        part=OF_QUEUE,
    )
    for answer in await call.peers.ask_all(question):
        shown += await _rows(answer)
    return shown


async def active_elsewhere(call: Call, consumers: Iterable[Consumer]) -> set[Consumer]:
    """Return those that the master of their queue, on another node, has as the active one."""
    waiting: list[tuple[Consumer, RemoteQueue]] = []
    for consumer in consumers:
        queue = consumer.queue
        if isinstance(queue, RemoteQueue) and takes_turns(consumer):
            waiting.append((consumer, queue))
    by_master: dict[str, set[tuple[str, str]]] = {}
    for _, queue in waiting:
        named = (queue.record.vhost, queue.record.name)
        by_master.setdefault(master_node_of(queue, call.node), set()).add(named)
    questions = {
        master: Question(
            call.user.name,
            "GET",
            "/api/consumers",
            headers=proof_of(call.user),
            body=msgspec.msgpack.encode(queues),
            part=ACTIVE,
        )
        for master, queues in by_master.items()
    }
    rows = [row for each in await call.peers.ask_each(questions) for row in await _rows(each)]
    active = {tuple(row) for row in rows}
    return {c for c, q in waiting if (q.record.vhost, q.record.name, q.name_of(c)) in active}


async def active_of_peer(call: Call) -> list[Json]:
    """Of the queues that it asks about, those whose active consumer is its, and which that is."""
    assert call.inquiry is not None, "only nodes ask for parts"
    found: list[Json] = []
    for vhost, name in msgspec.msgpack.decode(await call.raw_body(), type=list[tuple[str, str]]):
        queue = call.broker.vhosts[vhost].queues.get(name) if vhost in call.broker.vhosts else None
        mine = [each for each in _served(queue) if isinstance(each, LinkConsumer)]
        found += [(vhost, name, c.tag) for c in mine if c.node == call.inquiry.peer]
    return found


def _served(queue: AbstractQueue | None) -> list[Consumer]:
    """The consumers that are not waiting for their turn."""
    if isinstance(queue, StreamQueue):
        return list(queue.cursors)
    active = queue.active_consumer if isinstance(queue, Queue) else None
    return [] if active is None else [active]


async def _rows(answer: PeerAnswer) -> list[Json]:
    try:
        rows: list[Json] = msgspec.json.decode(await answer.whole()) if answer.status == _OK else []
    except PeerSilent:
        return []  # what it had there is gone, or will be
    return rows
