"""/api/vhosts: virtual hosts."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.auth.users import Vhost
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, ANY_TAG
from warren.management.json import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.vhosts import show_vhost


def _exists(call: Call) -> bool:
    return call.parts["vhost"] in call.broker.vhosts


async def _list(call: Call) -> Response:
    vhosts = call.broker.access.directory.vhosts()
    seen = [vhost for vhost in vhosts if call.caller.sees_vhost(vhost.name)]
    return await Listing(
        seen,
        lambda vhost: show_vhost(vhost, call.node.config.name),
        {"name": lambda vhost: vhost.name},
        default_sort=("name",),
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    name = call.parts["vhost"]
    vhost = call.broker.access.directory.vhost(name) or Vhost(name)
    return show_vhost(vhost, call.node.config.name)


async def _put(call: Call) -> None:
    body = await call.body()
    body.boolean("tracing", default=False)
    tags = body.get("tags", "")
    names = tags.split(",") if isinstance(tags, str) else [str(tag) for tag in tags]
    description = body.text("description", "")
    await call.broker.admin.add_vhost(
        call.parts["vhost"], description, [name.strip() for name in names if name.strip()]
    )


async def _delete(call: Call) -> None:
    await call.broker.admin.delete_vhost(call.parts["vhost"])


RESOURCES: Final = (
    Resource(path="/vhosts", rule=ANY_TAG, get=_list),
    Resource(
        path="/vhosts/{vhost}",
        rule=ADMINISTRATORS,
        exists=_exists,
        get=_show,
        put=_put,
        delete=_delete,
    ),
)
