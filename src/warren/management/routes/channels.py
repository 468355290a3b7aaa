"""/api/channels: the channels of all connections."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG, VHOST_USERS, Rule
from warren.management.cluster.consumers import active_elsewhere
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.errors import no_such_object
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.channels import (
    ChannelPlace,
    channels_of,
    show_channel,
    show_channel_in_full,
)


def _visible(call: Call, vhost: str | None = None) -> list[ChannelPlace]:
    is_monitor, user = call.caller.is_monitor, call.user.name
    return [
        place
        for connection in call.node.open_connections()
        if (is_monitor or connection.user.name == user) and vhost in (None, connection.vhost.name)
        for place in channels_of(connection)
    ]


def _find(call: Call) -> ChannelPlace | None:
    """A channel's name is that of its connection, and its number in brackets."""
    name, _, number = call.parts["channel"].rpartition(" (")
    for connection in call.node.open_connections():
        if connection.details.name == name:
            places = (p for p in channels_of(connection) if f"{p.channel.number})" == number)
            return next(places, None)
    return None


def _is_open_to(call: Call) -> bool:
    place = _find(call)
    is_own = place is None or place.connection.user.name == call.user.name
    return is_own or call.caller.is_monitor


async def list_channels(call: Call, places: list[ChannelPlace], is_spread: bool = True) -> Response:
    """`is_spread`: other nodes may have more of them."""
    kind = SpreadListing if is_spread else Listing
    return await kind(
        places,
        lambda place: show_channel(call.node, place),
        attrgetter("connection.vhost.name", "name"),
        {
            "name": attrgetter("name"),
            "number": attrgetter("channel.number"),
            "user": attrgetter("connection.user.name"),
            "vhost": attrgetter("connection.vhost.name"),
        },
    ).respond(call)


async def _list(call: Call) -> Response:
    return await list_channels(call, _visible(call))


async def _list_of_vhost(call: Call) -> Response:
    return await list_channels(call, _visible(call, call.vhost.name))


async def _show(call: Call) -> JsonObject:
    place = _find(call)
    if place is None:
        raise no_such_object()
    active = await active_elsewhere(call, place.channel.consumers.values())
    return show_channel_in_full(call.node, place, active)


RESOURCES: Final = (
    Resource(path="/channels", rule=ANY_TAG, get=_list),
    Resource(
        path="/channels/{channel}",
        rule=Rule(_is_open_to, "User not authorised to access object"),
        exists=lambda call: _find(call) is not None,
        get=_show,
        is_sought=True,
    ),
    Resource(
        path="/vhosts/{vhost}/channels",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list_of_vhost,
    ),
)
