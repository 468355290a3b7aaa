"""/api/connections: clients' connections, their channels, and closing them."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG, VHOST_USERS, Rule
from warren.management.cluster.forwarding import question_of
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.errors import no_such_object
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.channels import list_channels
from warren.management.views.channels import channels_of
from warren.management.views.connections import show_connection
from warren.server.connection import AmqpConnection

CLOSED_BY_MANAGEMENT: Final = "Closed via management plugin"
REASON_CHARS_MAX: Final = 200


def visible_connections(call: Call, vhost: str | None = None) -> list[AmqpConnection]:
    """Those of all users, to who may look at the node; to others their own."""
    is_monitor, user = call.caller.is_monitor, call.user.name
    return [
        connection
        for connection in call.node.open_connections()
        if (is_monitor or connection.user.name == user) and vhost in (None, connection.vhost.name)
    ]


def find_connection(call: Call) -> AmqpConnection | None:
    name = call.parts["connection"]
    return next((c for c in call.node.open_connections() if c.details.name == name), None)


def _is_open_to(call: Call) -> bool:
    """Whoever may look at the node may look at it; to close it takes its owner or a master."""
    connection = find_connection(call)
    caller = call.caller
    has_tag = caller.is_administrator if call.request.method == "DELETE" else caller.is_monitor
    return connection is None or has_tag or connection.user.name == call.user.name


_OWNERS: Final = Rule(_is_open_to, "User not authorised to access object")


async def list_connections(call: Call, connections: list[AmqpConnection]) -> Response:
    return await SpreadListing(
        connections,
        lambda connection: show_connection(call.node, connection),
        attrgetter("vhost.name", "details.name"),
        {
            "name": attrgetter("details.name"),
            "state": attrgetter("state"),
            "user": attrgetter("user.name"),
            "vhost": attrgetter("vhost.name"),
        },
    ).respond(call)


async def _list(call: Call) -> Response:
    return await list_connections(call, visible_connections(call))


async def _list_of_vhost(call: Call) -> Response:
    return await list_connections(call, visible_connections(call, call.vhost.name))


def _connections_of_user(call: Call) -> list[AmqpConnection]:
    wanted = call.parts["user"]
    return [c for c in visible_connections(call) if c.user.name == wanted]


async def _list_of_user(call: Call) -> Response:
    return await list_connections(call, _connections_of_user(call))


async def _show(call: Call) -> JsonObject:
    return show_connection(call.node, _found(call))


async def _list_channels(call: Call) -> Response:
    return await list_channels(call, channels_of(_found(call)), is_spread=False)


async def _close(call: Call) -> None:
    _found(call).shut_down(_reason(call))


async def _close_of_user(call: Call) -> None:
    """What a caller may not see it may not close."""
    may_close_all, user = call.caller.is_administrator, call.user.name
    for connection in _connections_of_user(call):
        if may_close_all or connection.user.name == user:
            connection.shut_down(_reason(call))
    if call.inquiry is None:
        await call.peers.ask_all(question_of(call))


def _reason(call: Call) -> str:
    given = call.request.headers.get("x-reason", "")[:REASON_CHARS_MAX]
    return given or CLOSED_BY_MANAGEMENT


def _found(call: Call) -> AmqpConnection:
    connection = find_connection(call)
    if connection is None:
        raise no_such_object()
    return connection


def _exists(call: Call) -> bool:
    return find_connection(call) is not None


def _has_vhost(call: Call) -> bool:
    return call.find_vhost() is not None


RESOURCES: Final = (
    Resource(path="/connections", rule=ANY_TAG, get=_list),
    Resource(
        path="/connections/{connection}",
        rule=_OWNERS,
        exists=_exists,
        get=_show,
        delete=_close,
        is_sought=True,
    ),
    Resource(
        path="/connections/{connection}/channels",
        rule=_OWNERS,
        exists=_exists,
        get=_list_channels,
        is_sought=True,
    ),
    Resource(
        path="/connections/username/{user}", rule=ANY_TAG, get=_list_of_user, delete=_close_of_user
    ),
    Resource(
        path="/vhosts/{vhost}/connections",
        rule=VHOST_USERS,
        exists=_has_vhost,
        get=_list_of_vhost,
    ),
)
