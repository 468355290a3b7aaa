"""Long lists: which part of one is shown, in which order, and the links to its other parts.

What is chosen is in the address, so that it can be kept, sent to somebody, and gone back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from warren.management.json_types import JsonObject
from warren.management.page.api_caller import Refused
from warren.management.page.visit import Visit, link

SIZES: Final = (50, 100, 250, 500)
_CHOSEN: Final = ("name", "use_regex", "vhost", "sort", "sort_reverse", "page", "page_size")
_OUT_OF_RANGE: Final = "Page out of range"


class ListChoice:
    """What of a list is wanted. `default_sort` is for who has not chosen."""

    def __init__(self, visit: Visit, path: str) -> None:
        self._path = path
        self._chosen = {name: visit.query[name] for name in _CHOSEN if visit.query.get(name)}

    @property
    def name(self) -> str:
        return self._chosen.get("name", "")

    @property
    def use_regex(self) -> bool:
        return self._chosen.get("use_regex") == "true"

    @property
    def vhost(self) -> str:
        return self._chosen.get("vhost", "")

    @property
    def page(self) -> int:
        return _number(self._chosen.get("page"), 1)

    @property
    def size(self) -> int:
        wanted = _number(self._chosen.get("page_size"), SIZES[0])
        return wanted if wanted in SIZES else SIZES[0]

    @property
    def sort(self) -> str:
        return self._chosen.get("sort", "")

    @property
    def is_reversed(self) -> bool:
        return self._chosen.get("sort_reverse") == "true"

    @property
    def is_filtered(self) -> bool:
        return bool(self.name or self.vhost)

    def query(self, **more: str) -> dict[str, str]:
        """What the API is asked for."""
        query = {"page": str(self.page), "page_size": str(self.size), "name": self.name, **more}
        if self.use_regex:
            query["use_regex"] = "true"
        if self.sort:
            query["sort"] = self.sort
            query["sort_reverse"] = "true" if self.is_reversed else "false"
        return query

    def url(self, **changed: str | int) -> str:
        chosen: Mapping[str, Any] = {**self._chosen, **changed}
        query = urlencode({name: value for name, value in chosen.items() if value != ""})
        return link(self._path) + (f"?{query}" if query else "")

    def sort_url(self, column: str) -> str:
        """The other way round if it is sorted by that already; the largest figures first."""
        is_reversed = not self.is_reversed if self.sort == column else column not in _TEXTS
        return self.url(sort=column, sort_reverse="true" if is_reversed else "", page="")

    def aria_sort(self, column: str) -> str:
        if self.sort != column:
            return "none"
        return "descending" if self.is_reversed else "ascending"


_TEXTS: Final = frozenset({"name", "vhost", "node", "policy", "state", "type", "user"})


async def listed(visit: Visit, choice: ListChoice, family: str) -> JsonObject:
    """A page of a list; the last one if there are fewer pages than that."""
    parts = [family, choice.vhost] if choice.vhost else [family]
    try:
        answer = await visit.api.get(*parts, query=choice.query())
    except Refused as refused:
        if not refused.reason.startswith(_OUT_OF_RANGE):
            raise
        answer = await visit.api.get(*parts, query=choice.query(page="1"))
    assert isinstance(answer, dict), "a list that is asked for in pages comes as one"
    return answer


async def vhost_names(visit: Visit) -> list[str]:
    vhosts = await visit.api.get("vhosts", query={"columns": "name"})
    return [vhost["name"] for vhost in vhosts]


def _number(text: str | None, default: int) -> int:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 9
    return max(1, int(text or "")) if is_number else default
