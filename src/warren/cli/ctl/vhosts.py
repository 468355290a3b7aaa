"""Virtual hosts: their limits, tags, and tracing."""

from __future__ import annotations

from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table, json_text
from warren.cli.ctl.limits import limit_names, limits_given
from warren.cli.ctl.listing import (
    COLUMN_ARGUMENT,
    Column,
    Item,
    by_name,
    choose,
    fields_of,
    fill,
    plain,
)
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.tools import Tool
from warren.cli.ctl.verbs import Argument, Family, Kind, Option, Verb, error, no_such_vhost

VHOST_LIMITS: Final = ("max-connections", "max-queues")


def _cluster_state(item: Item) -> object:
    nodes = item.get("cluster_state") or {}
    return [Atom(f"{{{node}, {state}}}") for node, state in nodes.items()]


COLUMNS: Final = by_name(
    plain("name", "description", "tags", "default_queue_type"),
    Column("cluster_state", _cluster_state, ("cluster_state",)),
    plain("tracing"),
)


def existing_vhost(call: Call, name: str) -> dict[str, Any]:
    vhost: dict[str, Any] | None = call.api.get_or_none("vhosts", name)
    if vhost is None:
        raise no_such_vhost(name)
    return vhost


def add_vhost(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Adding vhost "{name}" ...')
    given = {
        "description": call.text("description"),
        "tags": call.text("tags"),
        "defaultqueuetype": call.text("default-queue-type"),
    }
    call.api.put("vhosts", name, body={k: v for k, v in given.items() if v is not None})
    return None


def delete_vhost(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f'Deleting vhost "{name}" ...')
    messages = existing_vhost(call, name).get("messages", 0)
    queues = len(call.api.get("queues", name, columns="name"))
    call.api.delete("vhosts", name)
    if Tool.is_rabbitmq():
        return None
    return f"{queues} queues were deleted with {messages} messages"


def list_vhosts(call: Call) -> Answer:
    columns = choose(call, COLUMNS, ("name",))
    call.announce("Listing vhosts ...")
    return fill(columns, call.api.get("vhosts", columns=fields_of(columns)))


def set_vhost_tags(call: Call) -> Answer:
    name, *tags = call.arguments
    call.announce(f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...')
    description = existing_vhost(call, name).get("description") or ""
    call.api.put("vhosts", name, body={"description": description, "tags": ",".join(tags)})
    return None


def trace_on(call: Call) -> Answer:
    call.announce(f'Starting tracing for vhost "{call.vhost}" ...')
    _trace(call, is_on=True)
    return f"Trace enabled for vhost {call.vhost}"


def trace_off(call: Call) -> Answer:
    call.announce(f'Stopping tracing for vhost "{call.vhost}" ...')
    _trace(call, is_on=False)
    return f"Trace disabled for vhost {call.vhost}"


def _trace(call: Call, *, is_on: bool) -> None:
    """A PUT would make the virtual host, and forget what it is not told."""
    vhost = existing_vhost(call, call.vhost)
    kept = {"description": vhost.get("description") or "", "tags": ",".join(vhost["tags"] or ())}
    call.api.put("vhosts", call.vhost, body={**kept, "tracing": is_on})


def set_vhost_limits(call: Call) -> Answer:
    """As a whole: a limit that is not named is gone."""
    call.announce(f'Setting vhost limits to "{call.arguments[0]}" for vhost "{call.vhost}" ...')
    limits = limits_given(call, 0, VHOST_LIMITS, "limits")
    existing_vhost(call, call.vhost)
    before = limit_names(call.api.get("vhost-limits", call.vhost))
    for limit, value in limits.items():
        call.api.put("vhost-limits", call.vhost, limit, body={"value": value})
    for limit in before:
        if limit not in limits:
            call.api.delete("vhost-limits", call.vhost, limit)
    return None


def clear_vhost_limits(call: Call) -> Answer:
    call.announce(f'Clearing vhost "{call.vhost}" limits ...')
    entries = call.api.get_or_none("vhost-limits", call.vhost)
    names = limit_names(entries or [])
    if not names:
        raise error("Parameter does not exist")
    for limit in names:
        call.api.delete("vhost-limits", call.vhost, limit)
    return None


def list_vhost_limits(call: Call) -> Answer:
    if call.flag("global"):
        call.announce("Listing limits for all vhosts ...")
        rows = [
            {"vhost": entry["vhost"], "limits": json_text(entry["value"])}
            for entry in call.api.get("vhost-limits")
        ]
        return Table(("vhost", "limits"), rows)
    call.announce(f'Listing limits for vhost "{call.vhost}" ...')
    existing_vhost(call, call.vhost)
    entries = call.api.get("vhost-limits", call.vhost)
    text = json_text(entries[0]["value"]) if entries else ""
    return Document(text, {"result": "ok", "value": text})


_VHOST: Final = Argument("vhost", "name of the virtual host")

VERBS: Final = (
    Verb(
        name="add_vhost",
        family=Family.VHOSTS,
        summary="Creates a virtual host",
        run=add_vhost,
        arguments=(_VHOST,),
        options=(
            Option("description", "what it is for", Kind.TEXT),
            Option("tags", "comma separated list of tags", Kind.TEXT),
            Option(
                "default-queue-type",
                "type of queues that name none",
                Kind.TEXT,
            ),
        ),
        notes="The user who asks is given all permissions in it, as through RabbitMQ's HTTP API.",
    ),
    Verb(
        name="delete_vhost",
        family=Family.VHOSTS,
        summary="Deletes a virtual host with all that is in it",
        run=delete_vhost,
        arguments=(_VHOST,),
    ),
    Verb(
        name="list_vhosts",
        family=Family.ACCESS,
        summary="Lists virtual hosts",
        run=list_vhosts,
        arguments=(COLUMN_ARGUMENT,),
        is_table=True,
        columns=tuple(COLUMNS),
    ),
    Verb(
        name="set_vhost_tags",
        family=Family.VHOSTS,
        summary="Sets virtual host tags",
        run=set_vhost_tags,
        arguments=(_VHOST, Argument("tag", "any words", is_rest=True)),
    ),
    Verb(
        name="trace_on",
        family=Family.VHOSTS,
        summary="Starts copying the messages of a vhost to amq.rabbitmq.trace",
        run=trace_on,
        is_scoped=True,
    ),
    Verb(
        name="trace_off",
        family=Family.VHOSTS,
        summary="Stops copying messages to amq.rabbitmq.trace",
        run=trace_off,
        is_scoped=True,
    ),
    Verb(
        name="set_vhost_limits",
        family=Family.VHOSTS,
        summary="Sets virtual host limits",
        run=set_vhost_limits,
        arguments=(Argument("definition", 'JSON: {"max-queues": 100, "max-connections": 10}'),),
        is_scoped=True,
    ),
    Verb(
        name="clear_vhost_limits",
        family=Family.VHOSTS,
        summary="Clears virtual host limits",
        run=clear_vhost_limits,
        is_scoped=True,
    ),
    Verb(
        name="list_vhost_limits",
        family=Family.VHOSTS,
        summary="Displays configured virtual host limits",
        run=list_vhost_limits,
        options=(Option("global", "list limits of all virtual hosts"),),
        is_scoped=True,
        is_table=True,
    ),
)
