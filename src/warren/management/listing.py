"""Lists as the API gives them: sorted, filtered, in pages, with the columns that were asked for.

A `Listing` holds living things, and makes JSON of those only that are in the answer. Sorting needs
something to sort by: what `keys` can tell of an item directly is cheap, anything else takes its
whole view. Long answers are sent in pieces, made one at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from starlette.responses import Response, StreamingResponse

from warren.management.columns import parse_columns, with_columns
from warren.management.errors import JSON_TYPE, Refusal, bad_request
from warren.management.json_types import Json, JsonObject, encode
from warren.management.sorting import (
    LACKING,
    Order,
    dotted_value,
    in_slices,
    order_of,
    skip,
    sorted_rows,
)
from warren.model.regular_expressions import InvalidPattern, compile_new_pattern

if TYPE_CHECKING:
    from warren.management.call import Call

T = TypeVar("T")

PAGE_SIZE_DEFAULT: Final = 100
PAGE_SIZE_MAX: Final = 500
# So many objects become JSON in about two milliseconds.
SHOWN_AT_ONCE_MAX: Final = 50
# Time that filtering may take before others have their turn: patterns may be slow.
FILTER_TURN_S: Final = 0.0003
FILTER_CHARS_MAX: Final = 1_000

NOT_CACHED: Final = {"cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Page:
    number: int
    size: int
    name: str
    use_regex: bool

    @property
    def start(self) -> int:
        return (self.number - 1) * self.size

    def require_within(self, length: int) -> None:
        """The first page may be empty; others must begin within the list or at its very end."""
        if self.start > length:
            raise Refusal(
                400,
                "page_out_of_range",
                f"Page out of range, page: {self.number} page size: {self.size}, len: {length}",
            )


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """`order` is what a list is sorted by if nothing else is said: quick, such as an attrgetter.

    `keys` are columns that an item can tell without its view: names, and what sorts often.
    """

    items: Sequence[T]
    view: Callable[[T], JsonObject]
    order: Callable[[T], Any]
    keys: Mapping[str, Callable[[T], Json]] = field(default_factory=dict)
    is_paged: bool = True

    async def respond(self, call: Call) -> Response:
        show = self.shower(call.query)
        page = self.requested_page(call.query)
        if page is not None:
            return await self._page(page, call.query, show)
        in_order = _without_keys(await self.rows(self.items, call.query))
        if len(self.items) <= SHOWN_AT_ONCE_MAX:
            return json_response([show(item) for item in in_order])
        return StreamingResponse(_pieces(in_order, show), 200, NOT_CACHED, JSON_TYPE)

    def requested_page(self, query: Mapping[str, str]) -> Page | None:
        return _requested_page(query) if self.is_paged else None

    async def _page(
        self, page: Page, query: Mapping[str, str], show: Callable[[T], Json]
    ) -> Response:
        chosen = await self.filtered(page)
        page.require_within(len(chosen))
        in_order = _without_keys(await self.rows(chosen, query))
        await skip(in_order, page.start)
        items = []
        async for part in in_slices(list(islice(in_order, page.size)), SHOWN_AT_ONCE_MAX):
            items += [show(item) for item in part]
        return page_response(page, items, len(chosen), len(self.items))

    async def filtered(self, page: Page) -> Sequence[T]:
        if not page.name:
            return self.items
        matches = name_filter(page)
        chosen: list[T] = []
        began = time.perf_counter()
        for item in self.items:
            if matches(str(self._value(item, "name"))):
                chosen.append(item)
            if time.perf_counter() - began > FILTER_TURN_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return chosen

    async def rows(self, items: Sequence[T], query: Mapping[str, str]) -> Iterator[tuple[Order, T]]:
        """In the order asked for, each with what it is ordered by, which no other item has."""
        sort, is_reversed = query.get("sort"), query.get("sort_reverse") == "true"
        if not sort:
            # Asked for no order at all, any is right.
            return await sorted_rows(items, self.order, is_reversed and sort is None)
        # What was asked for comes first; among equals the order is the usual one.
        value = self.keys.get(sort)
        if value is not None:
            return await sorted_rows(
                items, lambda item: (order_of(value(item)), self.order(item)), is_reversed
            )
        return await sorted_rows(
            items,
            lambda item: (order_of(dotted_value(self.view(item), sort)), self.order(item)),
            is_reversed,
            SHOWN_AT_ONCE_MAX,
        )

    def shower(self, query: Mapping[str, str]) -> Callable[[T], Json]:
        """How an item is shown: whole, or the columns asked for."""
        columns = parse_columns(query.get("columns"))
        if columns is None:
            return self.view
        names = [column[0] for column in columns if len(column) == 1]
        if len(names) == len(columns) and all(name in self.keys for name in names):
            return lambda item: self._columns(item, names)
        return lambda item: with_columns(self.view(item), columns)

    def _columns(self, item: T, names: list[str]) -> JsonObject:
        values = ((name, self.keys[name](item)) for name in names)
        return {name: value for name, value in values if value is not LACKING}

    def _value(self, item: T, name: str) -> Json:
        return self.keys[name](item) if name in self.keys else self.view(item).get(name)


def page_response(page: Page, items: Sequence[Json], filtered: int, total: int) -> Response:
    return json_response(
        {
            "filtered_count": filtered,
            "item_count": len(items),
            "items": items,
            "page": page.number,
            "page_count": -(-filtered // page.size),
            "page_size": page.size,
            "total_count": total,
        }
    )


def json_response(value: Json) -> Response:
    return Response(encode(value), 200, NOT_CACHED, JSON_TYPE)


def _without_keys(rows: Iterator[tuple[Order, T]]) -> Iterator[T]:
    return (item for _, item in rows)


async def _pieces(in_order: Iterator[T], show: Callable[[T], Json]) -> AsyncIterator[bytes]:
    opening = b"["
    while items := [encode(show(item)) for item in islice(in_order, SHOWN_AT_ONCE_MAX)]:
        yield opening + b",".join(items)
        opening = b","
        await asyncio.sleep(0)
    yield b"]" if opening == b"," else b"[]"


def _requested_page(query: Mapping[str, str]) -> Page | None:
    number = _whole_number(query.get("page"))
    size = _whole_number(query.get("page_size"))
    if number is None:
        return None
    if number <= 0 or (size is not None and not 0 < size <= PAGE_SIZE_MAX):
        shown = "undefined" if size is None else size
        raise Refusal(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {number}, page size {shown}",
        )
    name = query.get("name", "")
    if len(name) > FILTER_CHARS_MAX:
        raise bad_request("Pagination parameters are invalid")
    return Page(number, size or PAGE_SIZE_DEFAULT, name, query.get("use_regex") == "true")


def _whole_number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None


def name_filter(page: Page) -> Callable[[str], bool]:
    if not page.use_regex:
        wanted = page.name.lower()
        return lambda name: wanted in name.lower()
    try:
        require = compile_new_pattern(page.name, is_caseless=True).require
    except InvalidPattern:
        raise bad_request("Pagination parameters are invalid") from None

    def matches(name: str) -> bool:
        try:
            return require(name.encode(errors="surrogateescape"))
        except InvalidPattern as error:  # valid, and too slow
            raise bad_request(f"Pagination parameters are invalid: {error}") from None

    return matches
