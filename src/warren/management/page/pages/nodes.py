"""Nodes: what they use, what they may, and what an operator does to one."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.page.address import Page
from warren.management.page.visit import Visit


async def _list(visit: Visit) -> Response:
    return await visit.page(
        "nodes.html",
        nodes=await visit.api.get("nodes"),
        cluster=await visit.api.get("warren", "cluster"),
    )


async def _show(visit: Visit) -> Response:
    name = visit.parts["node"]
    node = await visit.api.get("nodes", name)
    cluster = await visit.api.get("warren", "cluster")
    member = next((m for m in cluster["members"] if m["name"] == name), {"drained": False})
    return await visit.page("node.html", node=node, member=member)


async def _limit(visit: Visit) -> Response:
    name = visit.parts["node"]
    node = ("warren", "nodes", name)
    if visit.has("watermark"):
        body = {"absolute": visit.field("watermark").strip()}
        await visit.api.put(*node, "vm-memory-high-watermark", body=body)
    if visit.has("disk_free_limit"):
        await visit.api.put(
            *node, "disk-free-limit", body={"value": visit.field("disk_free_limit").strip()}
        )
    return visit.done("The limits are in force, until the node is restarted.", "nodes", name)


async def _maintain(visit: Visit) -> Response:
    name, is_drained = visit.parts["node"], visit.has("drained")
    body = {"drained": is_drained}
    await visit.api.put("warren", "nodes", name, "maintenance", body=body)
    note = f"{name} is in maintenance." if is_drained else f"{name} takes clients again."
    return visit.done(note, "nodes", name)


PAGES: Final = (
    Page(path="/nodes", get=_list),
    Page(path="/nodes/{node}", get=_show),
    Page(path="/nodes/{node}/limits", post=_limit),
    Page(path="/nodes/{node}/maintenance", post=_maintain),
)
