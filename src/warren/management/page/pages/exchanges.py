"""Exchanges: the list, one of them with its bindings, declaring, publishing, deleting."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.lists import SIZES, ListChoice, listed, vhost_names
from warren.management.page.pages.queue import publish
from warren.management.page.typed_fields import table_of
from warren.management.page.visit import Visit

TYPES: Final = (
    "direct", "fanout", "topic", "headers", "x-message-deduplication", "x-super-stream",
)  # fmt: skip
# More than that are no list to read; the API has them all.
BINDINGS_SHOWN_MAX: Final = 500
_KINDS: Final = {"queue": "q", "exchange": "e"}


def _name(visit: Visit) -> tuple[str, str]:
    return visit.parts["vhost"], visit.parts["exchange"]


async def _list(visit: Visit) -> Response:
    choice = ListChoice(visit, "exchanges")
    return await visit.page(
        "exchanges.html",
        choice=choice,
        found=await listed(visit, choice, "exchanges"),
        sizes=SIZES,
        vhosts=await vhost_names(visit),
        types=TYPES,
    )


async def _show(visit: Visit) -> Response:
    vhost, name = _name(visit)
    bindings = await visit.api.get("exchanges", vhost, name, "bindings", "source")
    return await visit.page(
        "exchange.html",
        exchange=await visit.api.get("exchanges", vhost, name),
        address=name,
        bindings=bindings[:BINDINGS_SHOWN_MAX],
        bindings_count=len(bindings),
    )


async def _declare(visit: Visit) -> Response:
    vhost, name = visit.field("vhost"), visit.field("name")
    if not name:
        raise Refused(400, "An exchange needs a name.")
    body = {
        "type": visit.field("type"),
        "durable": visit.has("durable"),
        "auto_delete": visit.has("auto_delete"),
        "internal": visit.has("internal"),
        "arguments": table_of(visit.field("arguments"), "arguments"),
    }
    await visit.api.put("exchanges", vhost, name, body=body)
    return visit.done(f"“{name}” is declared.", "exchanges", vhost, name)


async def _publish(visit: Visit) -> Response:
    vhost, name = _name(visit)
    await publish(visit, vhost, name, visit.field("routing_key"))
    return visit.done("The message was published and routed.", "exchanges", vhost, name)


async def _bind(visit: Visit) -> Response:
    vhost, name = _name(visit)
    body = {
        "routing_key": visit.field("routing_key"),
        "arguments": table_of(visit.field("arguments"), "arguments"),
    }
    destination, kind = visit.field("destination"), _kind(visit)
    await visit.api.post("bindings", vhost, "e", name, kind, destination, body=body)
    return visit.done(f"“{destination}” is bound to it.", "exchanges", vhost, name)


async def _unbind(visit: Visit) -> Response:
    vhost, name = _name(visit)
    destination, key = visit.field("destination"), visit.field("properties_key")
    await visit.api.delete("bindings", vhost, "e", name, _kind(visit), destination, key)
    return visit.done("The binding is gone.", "exchanges", vhost, name)


def _kind(visit: Visit) -> str:
    return _KINDS.get(visit.field("kind"), "q")


async def _delete(visit: Visit) -> Response:
    vhost, name = _name(visit)
    await visit.api.delete("exchanges", vhost, name)
    return visit.done(f"“{name}” was deleted.", "exchanges")


_PATH: Final = "/exchanges/{vhost}/{exchange}"

PAGES: Final = (
    Page(path="/exchanges", get=_list, post=_declare),
    Page(path=_PATH, get=_show),
    Page(path=_PATH + "/publish", post=_publish),
    Page(path=_PATH + "/bind", post=_bind),
    Page(path=_PATH + "/unbind", post=_unbind),
    Page(path=_PATH + "/delete", post=_delete),
)
