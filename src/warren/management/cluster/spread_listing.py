"""Lists of what is spread over the nodes: queues, connections, channels, consumers, nodes.

Each node lists what is its own, with the same code; whoever was asked by the client puts these
lists together. What the others send depends on what is wanted:

    the whole list   ROWS: every item, shown, in order; merged while it comes, and sent on in pieces
    a page           KEYS: how many there are, and what the first so many are ordered by. When it is
                     known which items are on the page, ITEMS of just these, by their identity

So the first page of twenty thousand queues takes some hundred short keys of each node and a hundred
queues, and a long list never is in memory as a whole. An item that goes between the two questions
is missing on its page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse

from warren.cluster.link.inquiries import QUESTION_BYTES_MAX
from warren.management.cluster.forwarding import question_of
from warren.management.cluster.peers import PeerAnswer, PeerSilent
from warren.management.cluster.rows import Row, decode_batches, encode_batch, in_batches, merged
from warren.management.errors import JSON_TYPE
from warren.management.json_types import Json, encode
from warren.management.listing import (
    NOT_CACHED,
    SHOWN_AT_ONCE_MAX,
    Listing,
    Page,
    name_filter,
    page_response,
)
from warren.management.sorting import Order, in_slices
from warren.model.logs import EventLog

if TYPE_CHECKING:
    from warren.management.call import Call

T = TypeVar("T")

ROWS: Final = "rows"
KEYS: Final = "keys"
ITEMS: Final = "items"
KEYS_AT_ONCE_MAX: Final = 500
_OK: Final = 200
_BATCHES_TYPE: Final = "application/msgpack"

# Whose item it is (None: ours), and its identity there.
_Whose: TypeAlias = tuple[str | None, tuple[Any, ...]]

_log = EventLog("management")


@dataclass(frozen=True)
class SpreadListing(Listing[T]):
    """`order` makes a tuple that no other item has, at any node: it is the item's identity.

    `elsewhere` says what there should be besides at nodes other than those that answer.
    """

    elsewhere: Callable[[Collection[str]], Sequence[T]] = lambda answering: ()

    async def respond(self, call: Call) -> Response:
        if call.part == ROWS:
            rows = await self.rows(self.items, call.query)
            return _batches(self._shown(rows, call.query))
        if call.part == KEYS:
            return _batches(self._keys(call))
        if call.part == ITEMS:
            return _batches(self._wanted(call))
        if call.inquiry is not None or call.node.cluster is None:
            return await Listing.respond(self, call)
        page = self.requested_page(call.query)
        return await (self._all(call) if page is None else self._page_of_all(call, page))

    # For another node.

    async def _shown(
        self, rows: Iterator[Row[T]], query: Mapping[str, str]
    ) -> AsyncIterator[list[Row[bytes]]]:
        show = self.shower(query)
        async for batch in in_batches(rows, SHOWN_AT_ONCE_MAX):
            yield [(_as_sent(key), encode(show(item))) for key, item in batch]

    async def _keys(self, call: Call) -> AsyncIterator[Sequence[Any]]:
        page = self.requested_page(call.query)
        assert page is not None, "keys are for finding a page"
        chosen = await self.filtered(page)
        yield [len(chosen), len(self.items)]
        rows = islice(await self.rows(chosen, call.query), page.start + page.size)
        async for batch in in_batches(rows, KEYS_AT_ONCE_MAX):
            yield [(key, self.order(item)) for key, item in batch]

    async def _wanted(self, call: Call) -> AsyncIterator[Sequence[Any]]:
        """Which those are that are wanted is said in the body."""
        body = await call.raw_body(QUESTION_BYTES_MAX)
        wanted = set(msgspec.msgpack.decode(body, type=list[tuple[Any, ...]]))
        show = self.shower(call.query)
        async for part in in_slices(self.items, KEYS_AT_ONCE_MAX):
            found = [item for item in part if self.order(item) in wanted]
            yield [(self.order(item), encode(show(item))) for item in found]

    # For a client.

    async def _all(self, call: Call) -> Response:
        answers = await self._ask_all(call, ROWS)
        whole = self._with_absent(call, answers)
        own = self._shown(await whole.rows(whole.items, call.query), call.query)
        others = [_until_silent(answer) for answer in answers]
        rows = merged([own, *others], _is_reversed(call))
        return StreamingResponse(_joined(rows), _OK, NOT_CACHED, JSON_TYPE)

    async def _page_of_all(self, call: Call, page: Page) -> Response:
        name_filter(page)  # what makes no sense is refused before anybody else is asked
        answers = await self._ask_all(call, KEYS)
        whole = self._with_absent(call, answers)
        chosen = await whole.filtered(page)
        filtered, total = len(chosen), len(whole.items)
        lists = [self._own_keys(await whole.rows(chosen, call.query))]
        for answer in answers:
            batches = _until_silent(answer)
            counts = await anext(batches, [0, 0])
            filtered, total = filtered + counts[0], total + counts[1]
            lists.append(_keys_of(answer.peer, batches))
        page.require_within(filtered)
        found: list[_Whose] = []
        async for _, whose in _cut(merged(lists, _is_reversed(call)), page):
            found.append(whose)
        items = await whole._items(call, found)
        return page_response(page, items, filtered, total)

    async def _own_keys(self, rows: Iterator[Row[T]]) -> AsyncIterator[list[Row[_Whose]]]:
        async for batch in in_batches(rows, KEYS_AT_ONCE_MAX):
            yield [(_as_sent(key), (None, self.order(item))) for key, item in batch]

    async def _items(self, call: Call, found: list[_Whose]) -> list[Json]:
        """What is on a page, shown, in its order: ours, and those that others show."""
        shown: dict[tuple[Any, ...], bytes] = {}
        by_peer: dict[str, list[tuple[Any, ...]]] = {}
        ours = {identity for peer, identity in found if peer is None}
        for peer, identity in found:
            if peer is not None:
                by_peer.setdefault(peer, []).append(identity)
        questions = {
            peer: question_of(call, ITEMS, msgspec.msgpack.encode(identities))
            for peer, identities in by_peer.items()
        }
        answers = await call.peers.ask_each(questions)
        show = self.shower(call.query)
        async for part in in_slices(self.items, KEYS_AT_ONCE_MAX):
            own = [item for item in part if self.order(item) in ours]
            shown.update((self.order(item), encode(show(item))) for item in own)
        for answer in answers:
            async for batch in _until_silent(answer):
                shown.update((tuple(identity), item) for identity, item in batch)
        wanted = (identity for _, identity in found if identity in shown)
        return [msgspec.Raw(shown[identity]) for identity in wanted]

    async def _ask_all(self, call: Call, part: str) -> list[PeerAnswer]:
        answers = await call.peers.ask_all(question_of(call, part))
        return [answer for answer in answers if answer.status == _OK]

    def _with_absent(self, call: Call, answers: Sequence[PeerAnswer]) -> SpreadListing[T]:
        absent = self.elsewhere({call.node.config.name, *(answer.peer for answer in answers)})
        return replace(self, items=[*self.items, *absent]) if absent else self


def _as_sent(key: Order) -> Order:
    """As it would be if another node had sent it, which has no tuples: so both can be compared."""
    return [_as_sent(part) for part in key] if isinstance(key, tuple) else key


def _is_reversed(call: Call) -> bool:
    return call.query.get("sort_reverse") == "true" and call.query.get("sort") != ""


def _batches(batches: AsyncIterator[Sequence[Any]]) -> Response:
    async def encoded() -> AsyncIterator[bytes]:
        async for batch in batches:
            yield encode_batch(batch)

    return StreamingResponse(encoded(), _OK, media_type=_BATCHES_TYPE)


async def _until_silent(answer: PeerAnswer) -> AsyncIterator[list[Any]]:
    """What it says; if it stops in the middle, that is all there is."""
    try:
        async for batch in decode_batches(aiter(answer)):
            yield batch
    except PeerSilent as silent:
        _log.warning("the list of a node is cut short", node=answer.peer, reason=silent)


async def _keys_of(
    peer: str, batches: AsyncIterator[list[Any]]
) -> AsyncIterator[list[Row[_Whose]]]:
    async for batch in batches:
        yield [(key, (peer, tuple(identity))) for key, identity in batch]


async def _cut(rows: AsyncIterator[Row[T]], page: Page) -> AsyncIterator[Row[T]]:
    number = 0
    async for row in rows:
        if number >= page.start + page.size:
            return
        if number >= page.start:
            yield row
        number += 1


async def _joined(rows: AsyncIterator[Row[bytes]]) -> AsyncIterator[bytes]:
    """A JSON array, in pieces."""
    opening, pending = b"[", list[bytes]()
    async for _, item in rows:
        pending.append(item)
        if len(pending) == SHOWN_AT_ONCE_MAX:
            yield opening + b",".join(pending)
            opening, pending = b",", []
    yield opening + b",".join(pending) + b"]" if pending else b"[]" if opening == b"[" else b"]"
