"""Runtime parameters, of a virtual host and global, and the cluster's name."""

from __future__ import annotations

from typing import Final

from warren.cli.ctl.api import NotFound
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table, json_text
from warren.cli.ctl.verbs import Argument, Family, Verb, error, no_such_vhost
from warren.cli.ctl.vhosts import existing_vhost


def set_parameter(call: Call) -> Answer:
    component, name, value = call.arguments
    call.announce(
        f'Setting runtime parameter "{name}" for component "{component}" to "{value}" '
        f'in vhost "{call.vhost}" ...'
    )
    body = {
        "component": component,
        "name": name,
        "vhost": call.vhost,
        "value": call.json_argument(2),
    }
    try:
        call.api.put("parameters", component, call.vhost, name, body=body)
    except NotFound as absent:
        raise no_such_vhost(call.vhost) from absent
    return None


def clear_parameter(call: Call) -> Answer:
    component, name = call.arguments
    call.announce(
        f'Clearing runtime parameter "{name}" for component "{component}" '
        f'on vhost "{call.vhost}" ...'
    )
    _delete(call, "parameters", component, call.vhost, name)
    return None


def list_parameters(call: Call) -> Answer:
    call.announce(f'Listing runtime parameters for vhost "{call.vhost}" ...')
    existing_vhost(call, call.vhost)
    rows = [
        {"component": p["component"], "name": p["name"], "value": json_text(p["value"])}
        for p in call.api.get("parameters")
        if p["vhost"] == call.vhost
    ]
    return Table(("component", "name", "value"), rows)


def set_global_parameter(call: Call) -> Answer:
    name, value = call.arguments
    call.announce(f'Setting global runtime parameter "{name}" to "{value}" ...')
    body = {"name": name, "value": call.json_argument(1)}
    call.api.put("global-parameters", name, body=body)
    return None


def clear_global_parameter(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Clearing global runtime parameter "{name}" ...')
    _delete(call, "global-parameters", name)
    return None


def list_global_parameters(call: Call) -> Answer:
    call.announce("Listing global runtime parameters ...")
    rows = [
        {"name": p["name"], "value": json_text(p["value"])}
        for p in call.api.get("global-parameters")
    ]
    return Table(("name", "value"), rows)


def set_cluster_name(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Setting cluster name to {name} ...")
    call.api.put("cluster-name", body={"name": name})
    return None


def _delete(call: Call, *path: str) -> None:
    try:
        call.api.delete(*path)
    except NotFound as absent:
        raise error("Parameter does not exist") from absent


_COMPONENT: Final = Argument("component_name", "what the parameter belongs to")
_NAME: Final = Argument("name", "of the parameter")
_VALUE: Final = Argument("value", "a JSON document")

VERBS: Final = (
    Verb(
        name="set_parameter",
        family=Family.PARAMETERS,
        summary="Sets a runtime parameter",
        run=set_parameter,
        arguments=(_COMPONENT, _NAME, _VALUE),
        is_scoped=True,
    ),
    Verb(
        name="clear_parameter",
        family=Family.PARAMETERS,
        summary="Clears a runtime parameter",
        run=clear_parameter,
        arguments=(_COMPONENT, _NAME),
        is_scoped=True,
    ),
    Verb(
        name="list_parameters",
        family=Family.PARAMETERS,
        summary="Lists runtime parameters for a virtual host",
        run=list_parameters,
        is_scoped=True,
        is_table=True,
    ),
    Verb(
        name="set_global_parameter",
        family=Family.PARAMETERS,
        summary="Sets a global runtime parameter",
        run=set_global_parameter,
        arguments=(_NAME, _VALUE),
    ),
    Verb(
        name="clear_global_parameter",
        family=Family.PARAMETERS,
        summary="Clears a global runtime parameter",
        run=clear_global_parameter,
        arguments=(_NAME,),
    ),
    Verb(
        name="list_global_parameters",
        family=Family.PARAMETERS,
        summary="Lists global runtime parameters",
        run=list_global_parameters,
        is_table=True,
    ),
    Verb(
        name="set_cluster_name",
        family=Family.CONFIGURATION,
        summary="Sets the cluster name",
        run=set_cluster_name,
        arguments=(Argument("name", "the new name"),),
    ),
)
