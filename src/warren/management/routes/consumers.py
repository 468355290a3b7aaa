"""/api/consumers: who consumes from which queue."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG
from warren.management.cluster.consumers import OF_QUEUE, consumers_here
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.json import JsonObject
from warren.management.resource import Resource
from warren.management.views.channels import consumers_of, show_consumer


async def _list(call: Call) -> Response | list[JsonObject]:
    if call.part == OF_QUEUE:
        queue = (await call.raw_body()).decode()
        places = await consumers_here(call, call.vhost.name, queue)
        return [show_consumer(call.node, place) for place in places]
    is_monitor, user = call.caller.is_monitor, call.user.name
    wanted = call.vhost_name
    consumers = [
        place
        for connection in call.node.open_connections()
        if (is_monitor or connection.user.name == user) and wanted in (None, connection.vhost.name)
        for place in consumers_of(connection)
    ]
    return await SpreadListing(
        consumers,
        lambda place: show_consumer(call.node, place),
        attrgetter("consumer.queue.record.vhost", "consumer.queue.record.name", "consumer.tag"),
        {"consumer_tag": attrgetter("consumer.tag")},
        is_paged=False,
    ).respond(call)


RESOURCES: Final = (
    Resource(path="/consumers", rule=ANY_TAG, get=_list),
    Resource(
        path="/consumers/{vhost}",
        rule=ANY_TAG,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
)
