"""/api/vhost-limits and /api/user-limits: how much a virtual host or a user may have at once."""

from __future__ import annotations

from typing import Final

from warren.auth.admin import InvalidLimits
from warren.management.access_changes import whole_number
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, VHOST_VIEWERS
from warren.management.errors import bad_request, no_such_object, not_found
from warren.management.json_types import JsonObject
from warren.management.resource import Resource


def _vhost_exists(call: Call) -> bool:
    return "vhost" not in call.parts or call.find_vhost() is not None


async def _list_of_vhosts(call: Call) -> list[JsonObject]:
    directory, wanted = call.broker.access.directory, call.vhost_name
    names = sorted(v.name for v in directory.vhosts() if call.caller.sees_vhost(v.name))
    rows = [{"vhost": name, "value": dict(directory.vhost_limits(name))} for name in names]
    return [row for row in rows if row["value"] and wanted in (None, row["vhost"])]


async def _put_of_vhost(call: Call) -> None:
    if call.find_vhost() is None:
        raise not_found("vhost_not_found")
    (value,) = (await call.body()).require("value")
    name, limit = call.parts["vhost"], call.parts["name"]
    limits = {**call.broker.access.directory.vhost_limits(name), limit: whole_number(value)}
    try:
        await call.broker.admin.set_vhost_limits(name, limits)
    except InvalidLimits as error:
        raise bad_request(f"Validation failed\n\n{error}\n") from None


async def _delete_of_vhost(call: Call) -> None:
    name = call.parts["vhost"]
    limits = dict(call.broker.access.directory.vhost_limits(name))
    limits.pop(call.parts["name"], None)
    await call.broker.admin.set_vhost_limits(name, limits)


async def _list_of_users(call: Call) -> list[JsonObject]:
    directory, wanted = call.broker.access.directory, call.parts.get("user")
    if wanted is not None and directory.user(wanted) is None:
        raise no_such_object()
    is_open = call.caller.is_monitor
    if wanted is not None and wanted != call.user.name and not is_open:
        raise no_such_object()
    seen = [user for user in directory.users() if is_open or user.name == call.user.name]
    users = sorted(seen, key=lambda user: user.name)
    chosen = [user for user in users if user.limits and wanted in (None, user.name)]
    return [{"user": user.name, "value": dict(user.limits)} for user in chosen]


async def _put_of_user(call: Call) -> None:
    (value,) = (await call.body()).require("value")
    name, limit = call.parts["user"], call.parts["name"]
    limits = {**call.broker.access.directory.user_limits(name), limit: whole_number(value)}
    await call.broker.admin.set_user_limits(name, limits)


async def _delete_of_user(call: Call) -> None:
    name = call.parts["user"]
    limits = dict(call.broker.access.directory.user_limits(name))
    limits.pop(call.parts["name"], None)
    await call.broker.admin.set_user_limits(name, limits)


RESOURCES: Final = (
    Resource(path="/vhost-limits", rule=VHOST_VIEWERS, get=_list_of_vhosts),
    Resource(
        path="/vhost-limits/{vhost}", rule=VHOST_VIEWERS, exists=_vhost_exists, get=_list_of_vhosts
    ),
    # There is nothing to see here, so a PUT always says 204, as if there had been.
    Resource(
        path="/vhost-limits/{vhost}/{name}",
        rule=ADMINISTRATORS,
        put=_put_of_vhost,
        delete=_delete_of_vhost,
    ),
    Resource(path="/user-limits", rule=VHOST_VIEWERS, get=_list_of_users),
    Resource(path="/user-limits/{user}", rule=VHOST_VIEWERS, get=_list_of_users),
    Resource(
        path="/user-limits/{user}/{name}",
        rule=ADMINISTRATORS,
        put=_put_of_user,
        delete=_delete_of_user,
    ),
)
