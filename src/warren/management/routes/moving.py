"""/api/warren: messages moved to another queue; dead letters counted, and sent back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.broker.vhost import VirtualHost
from warren.management.bodies import Body
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.dead_letter_origins import Origins
from warren.management.dead_letters import (
    LastDeath,
    last_death,
    may_be_dead_letter,
    moved,
    revived,
)
from warren.management.declaring import readable_queue, require_readable
from warren.management.errors import bad_request
from warren.management.json_types import Json, JsonObject
from warren.management.moving import MOVED_MAX, Moving
from warren.management.resource import Resource
from warren.management.routes.browsing import SCANNED_BYTES_MAX, SCANNED_MAX
from warren.management.routes.publishing import acting
from warren.management.routes.queues import master_of_queue, queue_exists
from warren.management.views.queues import show_any_queue
from warren.model.records import DestinationKind
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue
from warren.wire.codec import Message

# Looked at before others have their turn.
_WINDOW_MESSAGES: Final = 100
_WINDOW_BYTES: Final = 1_048_576


async def _move(call: Call) -> JsonObject:
    body, name = await call.body(), call.parts["queue"]
    require_readable(call, name)
    (destination,) = body.texts("destination")
    if destination == name:
        raise bad_request("the messages are in this queue already")

    def destiny(message: Message) -> tuple[Message, str]:
        return moved(message, destination), destination

    with acting(call) as connection:
        moving = Moving(connection, name, destiny)
        await moving.run(_count(body))
    return {"moved": moving.moved}


async def _redrive(call: Call) -> JsonObject:
    """Send back dead letters of one reason and origin, or all of them.

    Those whose origin is not possible stay where they are, and are counted.
    """
    body, name = await call.body(), call.parts["queue"]
    require_readable(call, name)
    reason, origin = body.get("reason"), body.get("origin")
    origins, unproved = Origins(call.vhost, name), 0

    def destiny(message: Message) -> tuple[Message, str] | None:
        death = last_death(message)
        if death is None or death.queue == name:
            return None
        if reason not in (None, death.reason) or origin not in (None, death.queue):
            return None
        if not origins.is_possible(death.queue):
            nonlocal unproved
            unproved += 1
            return None
        return revived(message, death.queue), death.queue

    with acting(call) as connection:
        moving = Moving(connection, name, destiny)
        await moving.run(_count(body))
    return {"moved": moving.moved, "unproved": unproved}


def _count(body: Body) -> int:
    count: Json = body.get("count", MOVED_MAX)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise bad_request(["not_integer", "count"])
    return min(count, MOVED_MAX)


async def _deaths(call: Call) -> JsonObject:
    """What of a queue died where and of what, as far as it is looked at."""
    queue = readable_queue(call, call.parts["queue"])
    deaths, others, position = Counter[LastDeath](), 0, 0
    room, origins = SCANNED_BYTES_MAX, Origins(call.vhost, queue.record.name)
    while position < SCANNED_MAX and room > 0:
        seen = await queue.backing.browse(position, _WINDOW_MESSAGES, _WINDOW_BYTES)
        if not seen:
            break
        for queued in seen:
            death = last_death(queued.message)
            if death is None:
                others += 1
            else:
                deaths[death] += 1
            room -= len(queued.message.body)
        position += len(seen)
        await asyncio.sleep(0)
    return {
        "groups": [
            {"reason": death.reason, "origin": death.queue, "exchange": death.exchange,
             "messages": count, "is_origin_possible": origins.is_possible(death.queue)}
            for death, count in deaths.most_common()
        ],
        "looked_at": position,
        "messages_ready": queue.message_count,
        "others": others,
    }  # fmt: skip


async def _list(call: Call) -> Response:
    vhosts = list(visible_vhosts(call))

    def nobody(_answering: Collection[str]) -> list[AbstractQueue]:
        return []

    return await SpreadListing[AbstractQueue](
        [queue for vhost in vhosts for queue in _graves(vhost)],
        lambda queue: show_any_queue(queue, call.node),
        attrgetter("record.vhost", "record.name"),
        {"name": attrgetter("record.name"), "vhost": attrgetter("record.vhost")},
        elsewhere=nobody,
    ).respond(call)


def _graves(vhost: VirtualHost) -> list[Queue]:
    """Queues with dead letters: their head is one, or it is on disk and they are meant for them."""
    meant: set[str] | None = None
    found = []
    for queue in vhost.queues_here():
        if queue.message_count == 0:
            continue
        head = queue.backing.peek()
        if head is not None:
            if may_be_dead_letter(head.message):
                found.append(queue)
            continue
        meant = _destinations(vhost) if meant is None else meant
        if queue.record.name in meant:
            found.append(queue)
    return found


def _destinations(vhost: VirtualHost) -> set[str]:
    """Queues that dead-letter exchanges lead to."""
    addresses = {
        (settings.dead_letter_exchange, settings.dead_letter_routing_key)
        for settings in (queue.settings for queue in vhost.queues.values())
        if settings.dead_letter_exchange is not None
    }
    names = {key for exchange, key in addresses if exchange == "" and key is not None}
    for exchange in {exchange for exchange, _ in addresses if exchange}:
        for binding in vhost.bindings.of_source(exchange):
            if binding.destination.kind is DestinationKind.QUEUE:
                names.add(binding.destination.name)
    return names


def _of_queue(path: str) -> str:
    return "/warren/queues/{vhost}/{queue}/" + path


RESOURCES: Final = (
    Resource(path="/warren/dead-letters", rule=VHOST_USERS, get=_list),
    Resource(
        path="/warren/dead-letters/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
    Resource(
        path=_of_queue("dead-letters"),
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_deaths,
        node_of=master_of_queue,
    ),
    Resource(
        path=_of_queue("move"),
        rule=VHOST_USERS,
        exists=queue_exists,
        post=_move,
        node_of=master_of_queue,
    ),
    Resource(
        path=_of_queue("redrive"),
        rule=VHOST_USERS,
        exists=queue_exists,
        post=_redrive,
        node_of=master_of_queue,
    ),
)
