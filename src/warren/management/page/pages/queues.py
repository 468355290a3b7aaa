"""The list of queues."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json import JsonObject
from warren.management.page.lists import SIZES, ListChoice, listed, vhost_names
from warren.management.page.site import Page
from warren.management.page.tiers import tiers_of
from warren.management.page.visit import Visit


async def _list(visit: Visit) -> Response:
    choice = ListChoice(visit, "queues")
    found = await listed(visit, choice, "queues")
    return visit.page(
        "queues.html",
        choice=choice,
        found=found,
        rows=[(queue, tiers_of(queue), copies_of(queue)) for queue in found["items"]],
        sizes=SIZES,
        vhosts=await vhost_names(visit),
    )


def copies_of(queue: JsonObject) -> JsonObject | None:
    """None of a queue that is not mirrored."""
    mirrors = queue.get("slave_nodes")
    if mirrors is None:
        return None
    synchronised = set(queue.get("synchronised_slave_nodes") or ())
    return {
        "mirrors": [(node, node in synchronised) for node in mirrors],
        "lacking": len(set(mirrors) - synchronised),
        "syncing": queue.get("sync_messages"),
    }


PAGES: Final = (Page(path="/queues", get=_list),)
