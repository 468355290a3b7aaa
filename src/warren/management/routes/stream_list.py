"""/api/warren/streams: the streams of all virtual hosts that the caller sees, or of one."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.resource import Resource
from warren.management.views.queues import show_queue
from warren.streams.queue import StreamQueue


async def _list(call: Call) -> Response:
    """As the list of queues shows them, those of nodes that are down left out."""
    queues = [queue for vhost in visible_vhosts(call) for queue in vhost.queues_here()]
    return await SpreadListing[StreamQueue](
        [queue for queue in queues if isinstance(queue, StreamQueue)],
        lambda queue: show_queue(queue, call.node),
        attrgetter("record.vhost", "record.name"),
        {"name": attrgetter("record.name"), "vhost": attrgetter("record.vhost")},
    ).respond(call)


RESOURCES: Final = (
    Resource(path="/warren/streams", rule=VHOST_USERS, get=_list),
    Resource(
        path="/warren/streams/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
)
