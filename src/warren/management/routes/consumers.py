"""/api/consumers: who consumes from which queue."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG
from warren.management.cluster.consumers import (
    ACTIVE,
    OF_QUEUE,
    active_elsewhere,
    active_of_peer,
    consumers_here,
)
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.json_types import Json
from warren.management.resource import Resource
from warren.management.views.channels import consumers_of, show_consumer


async def _list(call: Call) -> Response | list[Json]:
    if call.part == ACTIVE:
        return await active_of_peer(call)
    if call.part == OF_QUEUE:
        return await consumers_here(call, call.vhost.name, (await call.raw_body()).decode())
    is_monitor, user = call.caller.is_monitor, call.user.name
    wanted = call.vhost_name
    consumers = [
        place
        for connection in call.node.open_connections()
        if (is_monitor or connection.user.name == user) and wanted in (None, connection.vhost.name)
        for place in consumers_of(connection)
    ]
    active = await active_elsewhere(call, (place.consumer for place in consumers))
    return await SpreadListing(
        consumers,
        lambda place: show_consumer(call.node, place, active),
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
