"""The list of queues."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.lists import SIZES, ListChoice, listed, vhost_names
from warren.management.page.tiers import tiers_of
from warren.management.page.typed_fields import table_of
from warren.management.page.visit import Visit


async def _list(visit: Visit) -> Response:
    choice = ListChoice(visit, "queues")
    found = await listed(visit, choice, "queues")
    return await visit.page(
        "queues.html",
        choice=choice,
        found=found,
        rows=[(queue, tiers_of(queue), copies_of(queue)) for queue in found["items"]],
        sizes=SIZES,
        vhosts=await vhost_names(visit),
    )


def copies_of(queue: JsonObject) -> JsonObject | None:
    """None of a queue that is not mirrored, and not to be mirrored."""
    mirrors = queue.get("slave_nodes") or ()
    wanted, in_sync = queue["wanted_copies"], queue["synchronised_copies"]
    if "slave_nodes" not in queue and wanted == 1:
        return None
    synchronised = set(queue.get("synchronised_slave_nodes") or ())
    return {
        "wanted": wanted,
        "synchronised": in_sync,
        "is_whole": in_sync >= wanted,
        "mirrors": [(node, node in synchronised) for node in mirrors],
        "lacking": len(set(mirrors) - synchronised),
        "syncing": queue.get("sync_messages"),
    }


async def _declare(visit: Visit) -> Response:
    vhost, name = visit.field("vhost"), visit.field("name")
    if not name:
        raise Refused(400, "A queue needs a name.")
    body = {
        "durable": visit.has("durable"),
        "auto_delete": visit.has("auto_delete"),
        "arguments": table_of(visit.field("arguments"), "arguments"),
    }
    await visit.api.put("queues", vhost, name, body=body)
    return visit.done(f"“{name}” is declared.", "queues", vhost, name)


PAGES: Final = (Page(path="/queues", get=_list, post=_declare),)
