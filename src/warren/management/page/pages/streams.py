"""Streams: what they hold, how fast they grow, and how far groups of readers are behind."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.lists import SIZES, ListChoice, vhost_names
from warren.management.page.visit import Visit

# Every one of them is asked for its groups.
STREAMS_SHOWN_MAX: Final = 20


async def _list(visit: Visit) -> Response:
    choice = ListChoice(visit, "streams")
    parts = [choice.vhost] if choice.vhost else []
    query = choice.query(page_size=str(STREAMS_SHOWN_MAX))
    found = await visit.api.get("warren", "streams", *parts, query=query)
    return await visit.page(
        "streams.html",
        choice=choice,
        found=found,
        rows=[(queue, await _inside(visit, queue)) for queue in found["items"]],
        sizes=SIZES,
        vhosts=await vhost_names(visit),
    )


async def _inside(visit: Visit, queue: JsonObject) -> JsonObject | None:
    """None of a stream that may be seen, but not read."""
    place = ("warren", "streams", queue["vhost"], queue["name"])
    try:
        stream: JsonObject = await visit.api.get(*place)
        groups = await visit.api.get(*place, "groups")
    except Refused:
        return None
    return {**stream, "groups": groups}


def _place(visit: Visit) -> tuple[str, ...]:
    parts = visit.parts
    return "warren", "streams", parts["vhost"], parts["queue"], "groups", visit.field("group")


async def _set_group(visit: Visit) -> Response:
    group = visit.field("group")
    if not group:
        raise Refused(400, "A group needs a name.")
    body = {"offset": visit.number("offset", 0), "retain": visit.has("retain"), "reset": True}
    await visit.api.put(*_place(visit), body=body)
    return visit.done(f"“{group}” goes on at offset {body['offset']}.", "streams")


async def _delete_group(visit: Visit) -> Response:
    await visit.api.delete(*_place(visit))
    return visit.done(f"“{visit.field('group')}” is forgotten.", "streams")


_PATH: Final = "/streams/{vhost}/{queue}/groups"

PAGES: Final = (
    Page(path="/streams", get=_list),
    Page(path=_PATH, post=_set_group),
    Page(path=_PATH + "/delete", post=_delete_group),
)
