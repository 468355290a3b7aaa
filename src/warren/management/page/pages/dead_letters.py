"""The dead-letter board: queues with messages that died, of what and where, and the way back."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.lists import SIZES, ListChoice, vhost_names
from warren.management.page.visit import Visit

# Every one of them is looked into for the board.
BOARD_MAX: Final = 20
PREVIEWED: Final = 3
_SHOWN_BYTES_MAX: Final = 2_000


async def _board(visit: Visit) -> Response:
    choice = ListChoice(visit, "dead-letters")
    parts = [choice.vhost] if choice.vhost else []
    query = choice.query(page_size=str(BOARD_MAX))
    found = await visit.api.get("warren", "dead-letters", *parts, query=query)
    board = [(queue, await _deaths(visit, queue)) for queue in found["items"]]
    return await visit.page(
        "dead_letters.html",
        choice=choice,
        found=found,
        board=board,
        sizes=SIZES,
        vhosts=await vhost_names(visit),
    )


async def _deaths(visit: Visit, queue: JsonObject) -> JsonObject | None:
    """None of a queue that may be seen, but not read."""
    vhost, name = queue["vhost"], queue["name"]
    try:
        deaths: JsonObject = await visit.api.get("warren", "queues", vhost, name, "dead-letters")
    except Refused:
        return None
    return deaths


async def _preview(visit: Visit) -> Response:
    """Some messages of a group: those that name the queue where they died."""
    vhost, name = visit.parts["vhost"], visit.parts["queue"]
    reason, origin = visit.query.get("reason", ""), visit.query.get("origin", "")
    query = {"limit": "50", "filter": origin, "truncate": str(_SHOWN_BYTES_MAX)}
    found = await visit.api.get("warren", "queues", vhost, name, "browse", query=query)
    items = [item for item in found["items"] if _is_of(item, reason, origin)][:PREVIEWED]
    return await visit.page("dead_letters_preview.html", vhost=vhost, name=name, items=items)


def _is_of(item: JsonObject, reason: str, origin: str) -> bool:
    properties = item["properties"]
    headers = properties.get("headers", {}) if isinstance(properties, dict) else {}
    deaths = headers.get("x-death")
    newest = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(newest, dict):
        return False
    return newest.get("reason") == reason and newest.get("queue") == origin


async def _redrive(visit: Visit) -> Response:
    vhost, name = visit.parts["vhost"], visit.parts["queue"]
    origin = visit.field("origin")
    body = {"reason": visit.field("reason"), "origin": origin}
    answer = await visit.api.post("warren", "queues", vhost, name, "redrive", body=body)
    note = f"{answer['moved']} messages went back to “{origin}”."
    if answer["unproved"]:
        note += f" {answer['unproved']} stayed: dead letters of that queue do not come here."
    return visit.done(note, "dead-letters")


_PATH: Final = "/dead-letters/{vhost}/{queue}"

PAGES: Final = (
    Page(path="/dead-letters", get=_board),
    Page(path=_PATH + "/preview", get=_preview),
    Page(path=_PATH + "/redrive", post=_redrive),
)
