"""/api/permissions and /api/topic-permissions: what users may do in virtual hosts."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.auth.permissions import Permission, TopicPermission
from warren.management.access_changes import (
    put_permission,
    put_topic_permission,
)
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.errors import bad_request
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.access import show_permission, show_topic_permission


def _vhost_exists(call: Call) -> bool:
    return call.find_vhost() is not None


def _row(call: Call) -> Permission | None:
    compiled = call.broker.access.directory.permission(call.parts["user"], call.parts["vhost"])
    return None if compiled is None else compiled.record


async def _list(call: Call) -> Response:
    return await _listing(call.broker.access.directory.permissions()).respond(call)


async def _list_of_vhost(call: Call) -> Response:
    rows = call.broker.access.directory.permissions()
    return await _listing([row for row in rows if row.vhost == call.parts["vhost"]]).respond(call)


def _listing(rows: list[Permission]) -> Listing[Permission]:
    return Listing(rows, show_permission, attrgetter("vhost", "user"), is_paged=False)


async def _show(call: Call) -> JsonObject:
    row = _row(call)
    assert row is not None, "it was there a moment ago"
    return show_permission(row)


async def _put(call: Call) -> None:
    _require_owners(call)
    user, vhost = call.parts["user"], call.parts["vhost"]
    await put_permission(call.broker.admin, user, vhost, await call.body())


async def _delete(call: Call) -> None:
    await call.broker.admin.clear_permissions(call.parts["user"], call.parts["vhost"])


def _require_owners(call: Call) -> None:
    user = call.broker.access.directory.user(call.parts["user"])
    if user is None or call.find_vhost() is None:
        raise bad_request("vhost_or_user_not_found")


def _topic_rows(call: Call) -> list[TopicPermission]:
    """Of a user in a virtual host. An exchange in the path is looked at by DELETE alone."""
    return [
        row
        for row in call.broker.access.directory.topic_permissions()
        if (row.user, row.vhost) == (call.parts["user"], call.parts["vhost"])
    ]


async def _list_topics(call: Call) -> Response:
    return await _topic_listing(call.broker.access.directory.topic_permissions()).respond(call)


async def _list_topics_of_vhost(call: Call) -> Response:
    rows = call.broker.access.directory.topic_permissions()
    chosen = [row for row in rows if row.vhost == call.parts["vhost"]]
    return await _topic_listing(chosen).respond(call)


async def _show_topics(call: Call) -> Response:
    return await _topic_listing(_topic_rows(call)).respond(call)


def _topic_listing(rows: list[TopicPermission]) -> Listing[TopicPermission]:
    order = attrgetter("vhost", "user", "exchange")
    return Listing(rows, show_topic_permission, order, is_paged=False)


async def _put_topics(call: Call) -> None:
    _require_owners(call)
    user, vhost = call.parts["user"], call.parts["vhost"]
    await put_topic_permission(call.broker.admin, user, vhost, await call.body())


async def _delete_topics(call: Call) -> None:
    user, vhost = call.parts["user"], call.parts["vhost"]
    await call.broker.admin.clear_topic_permissions(user, vhost, call.parts.get("exchange"))


def _topics(path: str) -> Resource:
    return Resource(
        path=path,
        rule=ADMINISTRATORS,
        exists=lambda call: bool(_topic_rows(call)),
        get=_show_topics,
        put=_put_topics,
        delete=_delete_topics,
    )


RESOURCES: Final = (
    Resource(path="/permissions", rule=ADMINISTRATORS, get=_list),
    Resource(
        path="/permissions/{vhost}/{user}",
        rule=ADMINISTRATORS,
        exists=lambda call: _row(call) is not None,
        get=_show,
        put=_put,
        delete=_delete,
    ),
    Resource(
        path="/vhosts/{vhost}/permissions",
        rule=ADMINISTRATORS,
        exists=_vhost_exists,
        get=_list_of_vhost,
    ),
    Resource(path="/topic-permissions", rule=ADMINISTRATORS, get=_list_topics),
    _topics("/topic-permissions/{vhost}/{user}"),
    _topics("/topic-permissions/{vhost}/{user}/{exchange}"),
    Resource(
        path="/vhosts/{vhost}/topic-permissions",
        rule=ADMINISTRATORS,
        exists=_vhost_exists,
        get=_list_topics_of_vhost,
    ),
)
