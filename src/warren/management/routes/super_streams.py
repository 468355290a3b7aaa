"""/api/warren/super-streams: streams in partitions, declared, shown and deleted in one call.

    GET    /warren/super-streams[/V]     those of all virtual hosts that the caller sees, or of one
    GET    /warren/super-streams/V/NAME  one of them
    PUT    /warren/super-streams/V/NAME  {"partitions": 3} or {"routing_keys": ["emea", "apac"]}
    DELETE /warren/super-streams/V/NAME  the exchange, and the streams with all their records

A PUT may have `arguments` for the streams (x-max-age and the like) and the `type` of the exchange:
x-super-stream, by default for numbered partitions, hashes routing keys; direct is for publishers
that hash by themselves, and for partitions by routing key. A PUT with more partitions than there
are adds them, one with fewer is refused.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from warren.broker.vhost import VirtualHost
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.cluster.masters import master_node_of
from warren.management.declaring import declare_super_stream, delete_super_stream
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.routing.super_stream import NOWHERE, is_super_stream

if TYPE_CHECKING:
    from warren.broker.super_streams import Partition


def _exists(call: Call) -> bool:
    vhost = call.find_vhost()
    exchange = None if vhost is None else vhost.exchanges.get(call.exchange_name())
    return exchange is not None and is_super_stream(exchange.record)


async def _list(call: Call) -> Response:
    shown = [
        _shown(call, vhost, name)
        for vhost in visible_vhosts(call)
        for name in vhost.super_streams.names()
    ]
    keys = {name: itemgetter(name) for name in ("name", "vhost", "type")}
    return await Listing(shown, lambda row: row, itemgetter("vhost", "name"), keys).respond(call)


async def _show(call: Call) -> JsonObject:
    return _shown(call, call.vhost, call.exchange_name())


def _shown(call: Call, vhost: VirtualHost, name: str) -> JsonObject:
    return {
        "name": name,
        "vhost": vhost.name,
        "type": vhost.exchanges[name].record.type,
        "partitions": [
            _partition(call, vhost, each) for each in vhost.super_streams.partitions(name)
        ],
    }


def _partition(call: Call, vhost: VirtualHost, partition: Partition) -> JsonObject:
    return {
        "name": partition.stream,
        "routing_key": partition.key,
        "order": None if partition.order == NOWHERE else partition.order,
        "node": master_node_of(vhost.queues[partition.stream], call.node),
    }


async def _put(call: Call) -> None:
    # Loaded when first asked for, to keep idle nodes small.
    from warren.management.super_stream_wishes import wish_of

    await declare_super_stream(call, wish_of(call, await call.body()))


async def _delete(call: Call) -> None:
    await delete_super_stream(call, call.exchange_name())


RESOURCES: Final = (
    Resource(path="/warren/super-streams", rule=VHOST_USERS, get=_list),
    Resource(
        path="/warren/super-streams/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
    Resource(
        path="/warren/super-streams/{vhost}/{exchange}",
        rule=VHOST_USERS,
        exists=_exists,
        get=_show,
        put=_put,
        delete=_delete,
    ),
)
