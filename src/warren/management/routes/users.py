"""/api/users: who there is, and what each may do where."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.auth.users import User
from warren.management.access_changes import put_user
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, ANY_TAG
from warren.management.errors import bad_request
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.access import (
    show_permission,
    show_topic_permission,
    show_user,
)


def _exists(call: Call) -> bool:
    return call.broker.access.directory.user(call.parts["user"]) is not None


async def _whoami(call: Call) -> JsonObject:
    return {"name": call.user.name, "tags": list(call.user.tags)}


async def _list(call: Call) -> Response:
    return await _listing(call.broker.access.directory.users()).respond(call)


async def _list_without_permissions(call: Call) -> Response:
    directory = call.broker.access.directory
    permitted = {row.user for row in directory.permissions()}
    users = [user for user in directory.users() if user.name not in permitted]
    return await _listing(users).respond(call)


def _listing(users: list[User]) -> Listing[User]:
    return Listing(
        users,
        show_user,
        attrgetter("name"),
        is_paged=False,
    )


async def _show(call: Call) -> JsonObject:
    user = call.broker.access.directory.user(call.parts["user"])
    assert user is not None, "it was there a moment ago"
    return show_user(user)


async def _put(call: Call) -> None:
    await put_user(call.broker.admin, call.parts["user"], await call.body())


async def _delete(call: Call) -> None:
    await call.broker.admin.delete_user(call.parts["user"])


async def _bulk_delete(call: Call) -> None:
    (names,) = (await call.body()).require("users")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise bad_request(["not_a_list", "users"])
    for name in names:
        await call.broker.admin.delete_user(name)


async def _list_permissions(call: Call) -> Response:
    rows = call.broker.access.directory.permissions()
    return await Listing(
        [row for row in rows if row.user == call.parts["user"]],
        show_permission,
        attrgetter("vhost"),
        is_paged=False,
    ).respond(call)


async def _list_topic_permissions(call: Call) -> Response:
    rows = call.broker.access.directory.topic_permissions()
    return await Listing(
        [row for row in rows if row.user == call.parts["user"]],
        show_topic_permission,
        attrgetter("vhost", "exchange"),
        is_paged=False,
    ).respond(call)


RESOURCES: Final = (
    Resource(path="/whoami", rule=ANY_TAG, get=_whoami),
    Resource(path="/users", rule=ADMINISTRATORS, get=_list),
    Resource(path="/users/bulk-delete", rule=ADMINISTRATORS, post=_bulk_delete),
    Resource(path="/users/without-permissions", rule=ADMINISTRATORS, get=_list_without_permissions),
    Resource(
        path="/users/{user}",
        rule=ADMINISTRATORS,
        exists=_exists,
        get=_show,
        put=_put,
        delete=_delete,
    ),
    Resource(
        path="/users/{user}/permissions",
        rule=ADMINISTRATORS,
        exists=_exists,
        get=_list_permissions,
    ),
    Resource(
        path="/users/{user}/topic-permissions",
        rule=ADMINISTRATORS,
        exists=_exists,
        get=_list_topic_permissions,
    ),
)
