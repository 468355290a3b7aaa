"""/api/parameters and /api/global-parameters: what is set at run time, by component or for all."""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import Final

from starlette.responses import Response

from warren.broker.parameter_operations import NoSuchParameter, Parameter, ParameterInvalid
from warren.management.call import Call
from warren.management.caller import (
    GLOBAL_PARAMETER_SETTERS,
    GLOBAL_POLICYMAKERS,
    POLICYMAKERS,
    visible_vhosts,
)
from warren.management.errors import bad_request, no_such_object, without_tags
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.policies import show_parameter


def _vhost_exists(call: Call) -> bool:
    return "vhost" not in call.parts or call.find_vhost() is not None


def _find(call: Call) -> Parameter | None:
    if call.find_vhost() is None:
        return None
    parts = call.parts
    return call.broker.parameters.get(parts["component"], parts["vhost"], parts["name"])


async def _list(call: Call) -> Response:
    component = call.parts.get("component")
    parameters = [
        parameter
        for vhost in visible_vhosts(call)
        for parameter in call.broker.parameters.list(component, vhost.name)
    ]
    return await Listing(
        parameters, show_parameter, attrgetter("vhost", "name", "component"), is_paged=False
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    parameter = _find(call)
    if parameter is None:
        raise no_such_object()
    return show_parameter(parameter)


async def _put(call: Call) -> None:
    vhost = call.vhost
    (value,) = (await call.body()).require("value")
    component, name = call.parts["component"], call.parts["name"]
    try:
        await call.broker.parameters.set(component, vhost.name, name, value)
    except ParameterInvalid as error:
        raise bad_request(without_tags(str(error))) from None


async def _delete(call: Call) -> None:
    parts = call.parts
    try:
        await call.broker.parameters.clear(parts["component"], parts["vhost"], parts["name"])
    except NoSuchParameter:
        raise no_such_object() from None
    except ParameterInvalid as error:
        raise bad_request(str(error)) from None


async def _list_global(call: Call) -> Response:
    rows = [
        {"name": name, "value": value}
        for name, value in call.broker.parameters.list_global().items()
    ]
    listing = Listing(rows, lambda row: row, itemgetter("name"), is_paged=False)
    return await listing.respond(call)


async def _show_global(call: Call) -> JsonObject:
    name = call.parts["name"]
    return {"value": call.broker.parameters.list_global()[name], "name": name}


async def _put_global(call: Call) -> None:
    (value,) = (await call.body()).require("value")
    await call.broker.parameters.set_global(call.parts["name"], value)


async def _delete_global(call: Call) -> None:
    try:
        await call.broker.parameters.clear_global(call.parts["name"])
    except NoSuchParameter:
        raise no_such_object() from None


RESOURCES: Final = (
    Resource(path="/parameters", rule=POLICYMAKERS, get=_list),
    Resource(path="/parameters/{component}", rule=POLICYMAKERS, get=_list),
    Resource(
        path="/parameters/{component}/{vhost}",
        rule=POLICYMAKERS,
        exists=_vhost_exists,
        get=_list,
    ),
    Resource(
        path="/parameters/{component}/{vhost}/{name}",
        rule=POLICYMAKERS,
        exists=lambda call: _find(call) is not None,
        get=_show,
        put=_put,
        delete=_delete,
    ),
    Resource(path="/global-parameters", rule=GLOBAL_POLICYMAKERS, get=_list_global),
    Resource(
        path="/global-parameters/{name}",
        rule=GLOBAL_PARAMETER_SETTERS,
        exists=lambda call: call.parts["name"] in call.broker.parameters.list_global(),
        get=_show_global,
        put=_put_global,
        delete=_delete_global,
    ),
)
