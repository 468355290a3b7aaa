"""From templates to pages. Every value is escaped; a name that a template misspells is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import jinja2

from warren import __version__
from warren.auth.questions import once_answered
from warren.management.json_types import JsonObject
from warren.management.page import formats
from warren.management.page.static_files import static_url
from warren.management.page.visit import link
from warren.management.views.overview import cluster_name
from warren.management.views.redundancy import show_redundancy

if TYPE_CHECKING:
    from warren.management.page.visit import Visit

# Some thirty rows of a table, which take a few milliseconds.
PIECES_AT_ONCE: Final = 1_000
_TEMPLATES: Final = Path(__file__).parent / "templates"


class Entry(NamedTuple):
    """Of the menu; `icon` is drawn by a template, `tag` who sees it."""

    title: str
    path: str
    icon: str
    tag: str = ""


MENU: Final = (
    Entry("Overview", "/", "overview"),
    Entry("Nodes", "/nodes", "nodes", "monitor"),
    Entry("Connections", "/connections", "connections"),
    Entry("Channels", "/channels", "channels"),
    Entry("Exchanges", "/exchanges", "exchanges"),
    Entry("Queues", "/queues", "queues"),
    Entry("Streams", "/streams", "streams"),
    Entry("Dead letters", "/dead-letters", "dead-letters"),
    Entry("Policies", "/policies", "policies"),
    Entry("Admin", "/admin", "admin", "administrator"),
)


class Renderer:
    def __init__(self) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(formats.FILTERS)
        self._environment.globals.update(
            link=link, static=static_url, version=__version__, rate_of=formats.rate_of
        )

    async def render(self, visit: Visit, template: str, values: Mapping[str, Any]) -> str:
        """A long page takes a while; others have their turns meanwhile."""
        pieces = []
        lacks = await _lacks(visit)
        for piece in self._pieces(visit, template, {"lacks": lacks, **values}):
            pieces.append(piece)
            if len(pieces) % PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return "".join(pieces)

    def _pieces(self, visit: Visit, template: str, values: Mapping[str, Any]) -> Iterator[str]:
        return self._environment.get_template(template).generate(
            visit=visit,
            layout="part.html" if visit.is_partial else "layout.html",
            theme=visit.theme,
            note=visit.note,
            broker_name=cluster_name(visit.site.node),
            node_name=visit.site.node.config.name,
            **_of_signed_in(visit),
            **values,
        )


async def _lacks(visit: Visit) -> JsonObject | None:
    """Return what the cluster lacks, for the banner above every page; None if there is no banner.

    Asked of this node alone, which knows it without any other, and costs little: see
    `cluster/redundancy.py`.
    """
    if not visit.is_signed_in or visit.is_partial:
        return None
    node, caller = visit.site.node, visit.caller

    async def seen() -> set[str]:
        return {name for name in node.broker.vhosts if caller.sees_contents(name)}

    vhosts = await once_answered(seen)
    return await show_redundancy(node, vhosts, caller.is_monitor)


def _of_signed_in(visit: Visit) -> dict[str, Any]:
    if not visit.is_signed_in:
        return {"menu": (), "user": None, "csrf": "", "may_administer": False, "may_monitor": False}
    caller = visit.caller
    open_to = {
        "": True,
        "monitor": caller.is_monitor,
        "administrator": caller.is_administrator,
    }
    return {
        "menu": tuple(entry for entry in MENU if open_to[entry.tag]),
        "user": visit.user.name,
        "csrf": visit.site.signer.form_token(visit.session),
        "may_administer": caller.is_administrator,
        "may_monitor": caller.is_monitor,
    }
