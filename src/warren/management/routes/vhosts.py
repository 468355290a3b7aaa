"""/api/vhosts: virtual hosts."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.auth.admin import NoSuchVhost
from warren.auth.users import Vhost
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, ANY_TAG
from warren.management.cluster.sums import FIGURES, Figures, add, figures_elsewhere
from warren.management.errors import bad_request, no_such_object
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.vhost_changes import put_vhost
from warren.management.views.vhosts import show_figures, show_vhost


def _exists(call: Call) -> bool:
    return call.parts["vhost"] in call.broker.vhosts


async def _list(call: Call) -> Response | Figures:
    vhosts = call.broker.access.directory.vhosts()
    seen = [vhost for vhost in vhosts if call.caller.sees_vhost(vhost.name)]
    if call.part == FIGURES:
        return {vhost.name: show_figures(vhost.name, call.node) for vhost in seen}
    elsewhere = await figures_elsewhere(call)
    return await Listing(
        seen,
        lambda vhost: add(show_vhost(vhost, call.node), elsewhere.get(vhost.name, {})),
        attrgetter("name"),
        {"name": attrgetter("name")},
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    name = call.parts["vhost"]
    if call.part == FIGURES:
        return {name: show_figures(name, call.node)}
    elsewhere = await figures_elsewhere(call)
    vhost = call.broker.access.directory.vhost(name) or Vhost(name)
    return add(show_vhost(vhost, call.node), elsewhere.get(name, {}))


async def _put(call: Call) -> None:
    await put_vhost(call.broker, call.parts["vhost"], await call.body(), call.user.name)


async def _delete(call: Call) -> None:
    try:
        await call.broker.admin.delete_vhost(call.parts["vhost"])
    except NoSuchVhost:
        raise no_such_object() from None


async def _start(call: Call) -> None:
    """Virtual hosts of this broker always run: there is nothing to start."""
    name, node = call.parts["vhost"], call.parts["node"]
    if node not in (call.node.config.name, *call.peers.names):
        raise bad_request(f"Request to node {node} failed with nodedown")
    if name not in call.broker.vhosts:
        raise bad_request(f'Request to node {node} failed with {{no_such_vhost,<<"{name}">>}}')


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
    Resource(path="/vhosts/{vhost}/start/{node}", rule=ADMINISTRATORS, post=_start),
)
