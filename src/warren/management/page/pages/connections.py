"""Connections of clients, and their channels."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.page.address import Page
from warren.management.page.lists import SIZES, ListChoice, listed
from warren.management.page.visit import Visit


async def _connections(visit: Visit) -> Response:
    choice = ListChoice(visit, "connections")
    found = await listed(visit, choice, "connections")
    return await visit.page("connections.html", choice=choice, found=found, sizes=SIZES)


async def _connection(visit: Visit) -> Response:
    name = visit.parts["connection"]
    return await visit.page(
        "connection.html",
        connection=await visit.api.get("connections", name),
        channels=await visit.api.get("connections", name, "channels"),
    )


async def _close(visit: Visit) -> Response:
    name = visit.parts["connection"]
    reason = visit.field("reason") or f"closed by {visit.user.name} on the management page"
    await visit.api.delete("connections", name, reason=reason)
    return visit.done(f"Connection “{name}” was closed.", "connections")


async def _channels(visit: Visit) -> Response:
    choice = ListChoice(visit, "channels")
    found = await listed(visit, choice, "channels")
    return await visit.page("channels.html", choice=choice, found=found, sizes=SIZES)


async def _channel(visit: Visit) -> Response:
    channel = await visit.api.get("channels", visit.parts["channel"])
    return await visit.page("channel.html", channel=channel)


PAGES: Final = (
    Page(path="/connections", get=_connections),
    Page(path="/connections/{connection}", get=_connection),
    Page(path="/connections/{connection}/close", post=_close),
    Page(path="/channels", get=_channels),
    Page(path="/channels/{channel}", get=_channel),
)
