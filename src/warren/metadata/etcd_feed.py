"""What etcd tells of a key space, as transactions in commit order, through every reconnection.

The feed is a listing at a revision and a watch from the one after it. A watch that breaks goes on
from the last revision told. If etcd has compacted that away, everything is listed again and the
difference is told as one transaction: nobody sees a key go back, only several steps as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import groupby
from typing import Final, TypeAlias

from warren.metadata.etcd_client import EtcdClient, EtcdError, NoAnswer
from warren.metadata.etcd_messages import (
    RANGE,
    WATCH,
    Pair,
    WatchAnswer,
    WatchEvent,
    range_request,
    watch_request,
)
from warren.metadata.store import MetadataUnavailable, Record
from warren.metadata.view import Effects, Entry

LIST_PAGE_KEYS: Final = 5_000
RETRY_S: Final = 0.2
# Of a name space only this is told; what is beside it counts for the order alone.
DATA: Final = "data/"
# Beside it: who made the last change.
WRITER: Final = "writer"

Listing: TypeAlias = "dict[str, Entry]"
OnTransaction: TypeAlias = Callable[[int, Effects, str], None]
OnListing: TypeAlias = Callable[[int, Listing], None]


class Compacted(Exception):
    """The history from here on is gone: read everything again."""


class EtcdFeed:
    """`run` until cancelled; keys of the data are told, without the prefix."""

    def __init__(
        self,
        client: EtcdClient,
        prefix: str,
        on_transaction: OnTransaction,
        on_listing: OnListing,
    ) -> None:
        self._client = client
        self._prefix = prefix.encode()
        self._data = self._prefix + DATA.encode()
        self._writer = self._prefix + WRITER.encode()
        self._end = self._prefix[:-1] + bytes([self._prefix[-1] + 1])
        self._on_transaction = on_transaction
        self._on_listing = on_listing
        self.revision = 0
        self.is_live = False
        """Whether a watch is open, as far as is known."""
        self.prepare: Callable[[Effects], Awaitable[None]] | None = None
        """What has to be done before changes can be told."""

    async def start(self) -> None:
        """Read everything; raises MetadataUnavailable when no member answers."""
        revision, listing = await self._list()
        if self.prepare is not None:
            await self.prepare([*listing.items()])
        self.revision = revision
        self._on_listing(self.revision, listing)

    async def run(self) -> None:
        while True:
            try:
                await self._watch()
            except Compacted:
                await self._list_again()
            except (MetadataUnavailable, EtcdError):
                self.is_live = False
                await asyncio.sleep(RETRY_S)

    async def _list_again(self) -> None:
        try:
            await self.start()
        except (MetadataUnavailable, EtcdError):
            await asyncio.sleep(RETRY_S)

    async def _list(self) -> tuple[int, Listing]:
        listing: Listing = {}
        start, revision = self._prefix, 0
        while True:
            request = range_request(start, self._end, limit=LIST_PAGE_KEYS, revision=revision)
            answer = await self._client.call(RANGE, request)
            revision = revision or answer.revision
            listing.update(map(self._listed, filter(self._is_data, answer.pairs)))
            if not answer.has_more:
                return revision, listing
            start = answer.pairs[-1].key + b"\0"

    async def _watch(self) -> None:
        request = watch_request(self._prefix, self._end, self.revision + 1)
        async for answer in self._answers(request):
            self.is_live = True
            for revision, effects, writer in self._transactions(answer):
                if self.prepare is not None:
                    await self.prepare(effects)
                self.revision = revision
                self._on_transaction(revision, effects, writer)

    async def _answers(self, request: bytes) -> AsyncIterator[WatchAnswer]:
        async for answer in self._client.stream(WATCH, [request]):
            if answer.compact_revision:
                raise Compacted
            if answer.is_cancelled:
                raise NoAnswer(f"etcd ended a watch: {answer.cancel_reason}")
            yield answer

    def _transactions(self, answer: WatchAnswer) -> Iterator[tuple[int, Effects, str]]:
        """What shares a revision was one transaction, and comes in the order it was given."""
        for revision, events in groupby(answer.events, lambda event: event.pair.mod_revision):
            if revision <= self.revision:
                continue
            effects, writer = [], ""
            for event in events:
                pair = event.pair
                if pair.key.startswith(self._data):
                    effects.append(self._effect(event))
                elif pair.key == self._writer:
                    writer = str(pair.value, "utf-8", "replace")
            yield revision, effects, writer

    def _effect(self, event: WatchEvent) -> tuple[str, Entry | None]:
        key = self._key(event.pair)
        return key, None if event.is_deletion else _entry(key, event.pair)

    def _listed(self, pair: Pair) -> tuple[str, Entry]:
        key = self._key(pair)
        return key, _entry(key, pair)

    def _is_data(self, pair: Pair) -> bool:
        return pair.key.startswith(self._data)

    def _key(self, pair: Pair) -> str:
        return str(pair.key[len(self._data) :], "ascii", "replace")


def _entry(key: str, pair: Pair) -> Entry:
    return Entry(Record(key, pair.value, pair.mod_revision), pair.lease_id)
