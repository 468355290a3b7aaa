"""Who consumes from a queue, wherever they are connected: the home asks all nodes for theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from warren.management.cluster.peers import PeerSilent, Question
from warren.management.json import JsonObject
from warren.management.sorting import in_slices
from warren.management.views.channels import ConsumerPlace, consumers_of, show_consumer
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.management.call import Call

CONNECTIONS_AT_ONCE_MAX: Final = 500
# As a part of the list of consumers: those of the queue that the body names.
OF_QUEUE: Final = "consumers of a queue"
_OK: Final = 200


async def consumers_here(call: Call, vhost: str, queue: str) -> list[ConsumerPlace]:
    found: list[ConsumerPlace] = []
    async for connections in in_slices(call.node.open_connections(), CONNECTIONS_AT_ONCE_MAX):
        for connection in connections:
            if connection.vhost.name == vhost:
                places = consumers_of(connection)
                found += [place for place in places if place.consumer.queue.record.name == queue]
    return found


async def consumers_everywhere(call: Call, queue: Queue) -> list[JsonObject]:
    """At the home of the queue, which knows which of them is the active one."""
    record = queue.record
    here = await consumers_here(call, record.vhost, record.name)
    shown = [show_consumer(call.node, place) for place in here]
    if len(here) == queue.consumer_count:
        return shown
    question = Question(
        call.user.name, "GET", f"/api/consumers/{quote(record.vhost, safe='')}",
        body=record.name.encode(), part=OF_QUEUE,
    )  # fmt: skip
    for answer in await call.peers.ask_all(question):
        try:
            if answer.status == _OK:
                shown += msgspec.json.decode(await answer.whole())
        except PeerSilent:
            continue  # what it had there is gone, or will be
    return shown
