"""One queue: what it is and has, who mirrors it, and all that can be done with it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.pages.queues import copies_of
from warren.management.page.ring_drawing import draw_ring
from warren.management.page.tiers import tiers_of
from warren.management.page.typed_fields import table_of
from warren.management.page.visit import Visit

BROWSED_AT_ONCE: Final = 20
GOT_MAX: Final = 100
SHOWN_BYTES_MAX: Final = 10_000
_MISSING: Final = 404


def _name(visit: Visit) -> tuple[str, str]:
    return visit.parts["vhost"], visit.parts["queue"]


async def _show(visit: Visit) -> Response:
    vhost, name = _name(visit)
    queue = await _find(visit)
    ring = await visit.api.get("warren", "queues", vhost, name, "ring")
    bindings = await visit.api.get("queues", vhost, name, "bindings")
    return await visit.page(
        "queue.html",
        queue=queue,
        tiers=tiers_of(queue),
        copies=copies_of(queue),
        ring=ring,
        drawing=draw_ring(ring, queue.get("messages", 0)) if ring["members"] else None,
        bindings=[binding for binding in bindings if binding["source"]],
    )


async def _find(visit: Visit) -> JsonObject:
    """Of one whose node is down the list has the little that is known."""
    vhost, name = _name(visit)
    try:
        found = await visit.api.get("queues", vhost, name)
    except Refused as refused:
        if refused.status != _MISSING:
            raise
        listed = await visit.api.get("queues", vhost)
        found = next((queue for queue in listed if queue["name"] == name), None)
    if not isinstance(found, dict):
        raise Refused(_MISSING, f"There is no queue “{name}” in virtual host “{vhost}”.")
    return found


async def _browse(visit: Visit) -> Response:
    vhost, name = _name(visit)
    query = {
        "offset": visit.query.get("offset") or "0",
        "limit": str(BROWSED_AT_ONCE),
        "filter": visit.query.get("filter", ""),
        "truncate": str(SHOWN_BYTES_MAX),
    }
    found = await visit.api.get("warren", "queues", vhost, name, "browse", query=query)
    return await visit.page(
        "queue_browse.html", vhost=vhost, name=name, found=found, filter=query["filter"]
    )


async def _get(visit: Visit) -> Response:
    vhost, name = _name(visit)
    body = {
        "count": max(1, min(visit.number("count", 1), GOT_MAX)),
        "ackmode": visit.field("ackmode"),
        "encoding": "auto",
        "truncate": SHOWN_BYTES_MAX,
    }
    messages = await visit.api.post("queues", vhost, name, "get", body=body)
    return await visit.page("queue_got.html", vhost=vhost, name=name, messages=messages)


async def _publish(visit: Visit) -> Response:
    vhost, name = _name(visit)
    await publish(visit, vhost, "amq.default", name)
    return visit.done("The message was published.", "queues", vhost, name)


async def publish(visit: Visit, vhost: str, exchange: str, routing_key: str) -> None:
    """What the form says, to this exchange."""
    properties: JsonObject = table_of(visit.field("properties"), "properties")
    properties["headers"] = table_of(visit.field("headers"), "headers")
    properties["delivery_mode"] = 2 if visit.has("persistent") else 1
    body = {
        "properties": properties,
        "routing_key": routing_key,
        "payload": visit.field("payload"),
        "payload_encoding": "base64" if visit.has("base64") else "string",
    }
    answer = await visit.api.post("exchanges", vhost, exchange, "publish", body=body)
    if not answer["routed"]:
        raise Refused(409, "The message was not routed: no queue is bound for it.")


async def _purge(visit: Visit) -> Response:
    vhost, name = _name(visit)
    await visit.api.delete("queues", vhost, name, "contents")
    return visit.done(f"“{name}” was purged.", "queues", vhost, name)


async def _move(visit: Visit) -> Response:
    vhost, name = _name(visit)
    destination = visit.field("destination")
    body: JsonObject = {"destination": destination}
    if visit.has("count"):
        body["count"] = visit.number("count", 0)
    answer = await visit.api.post("warren", "queues", vhost, name, "move", body=body)
    note = f"{answer['moved']} messages were moved to “{destination}”."
    return visit.done(note, "queues", vhost, name)


async def _synchronise(visit: Visit) -> Response:
    vhost, name = _name(visit)
    action = "cancel_sync" if visit.has("cancel") else "sync"
    await visit.api.post("queues", vhost, name, "actions", body={"action": action})
    note = "Synchronising was stopped." if visit.has("cancel") else "Synchronising has begun."
    return visit.done(note, "queues", vhost, name)


async def _bind(visit: Visit) -> Response:
    vhost, name = _name(visit)
    body = {
        "routing_key": visit.field("routing_key"),
        "arguments": table_of(visit.field("arguments"), "arguments"),
    }
    source = visit.field("source")
    await visit.api.post("bindings", vhost, "e", source, "q", name, body=body)
    return visit.done(f"“{name}” is bound to “{source}”.", "queues", vhost, name)


async def _unbind(visit: Visit) -> Response:
    vhost, name = _name(visit)
    source, key = visit.field("source"), visit.field("properties_key")
    await visit.api.delete("bindings", vhost, "e", source, "q", name, key)
    return visit.done("The binding is gone.", "queues", vhost, name)


async def _delete(visit: Visit) -> Response:
    vhost, name = _name(visit)
    await visit.api.delete("queues", vhost, name)
    return visit.done(f"“{name}” was deleted.", "queues")


async def _explain(visit: Visit) -> Response:
    vhost, name = _name(visit)
    report = await visit.api.get("warren", "queues", vhost, name, "explain-policy")
    return await visit.page("policy_explained.html", vhost=vhost, name=name, report=report)


_PATH: Final = "/queues/{vhost}/{queue}"

PAGES: Final = (
    Page(path=_PATH, get=_show),
    Page(path=_PATH + "/browse", get=_browse),
    Page(path=_PATH + "/get", post=_get),
    Page(path=_PATH + "/publish", post=_publish),
    Page(path=_PATH + "/purge", post=_purge),
    Page(path=_PATH + "/move", post=_move),
    Page(path=_PATH + "/sync", post=_synchronise),
    Page(path=_PATH + "/bind", post=_bind),
    Page(path=_PATH + "/unbind", post=_unbind),
    Page(path=_PATH + "/delete", post=_delete),
    Page(path=_PATH + "/explain", get=_explain),
)
