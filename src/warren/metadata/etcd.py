"""The metadata engine of a cluster: a copy in memory of what is in etcd.

**What it gives.** The contract of `store.MetadataStore` for nodes that share one etcd: reads never
wait, every change is a compare-and-set transaction decided by etcd's majority, and all nodes are
told of all changes in the same order.

**Own changes.** A transaction returns when the node's own copy has it, through the same feed as
everybody else's changes (`etcd_copy`). So what a caller reads next includes what it wrote, and no
watcher ever sees two orders.

**No answer.** A member may die between taking a transaction and answering it. Then it is not known
whether it happened. To report failure would be easy and useless: every rolling restart of etcd
would be an error at some client. Sending it again blindly would be wrong: its own first success
would fail its checks. So a *mark* is written, which orders everything before it: when the copy has
seen the mark, it has seen the transaction, or that never was before the mark and can be sent
again. If the lost one is done even later, its checks fail, or it does once more what it did.

**Order.** `turns` keeps calls that share a key in the order they were made; others that are under
way at once go to etcd together (`etcd_groups`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from warren.metadata.boot_wait import BootWait
from warren.metadata.etcd_address import DEFAULT_NAMESPACE, EtcdAddress
from warren.metadata.etcd_client import EtcdClient, EtcdError, NoAnswer
from warren.metadata.etcd_copy import EtcdCopy, Expectation
from warren.metadata.etcd_feed import DATA, RETRY_S, WRITER, EtcdFeed
from warren.metadata.etcd_groups import EtcdGroups
from warren.metadata.etcd_messages import (
    LEASE_GRANT,
    LEASE_KEEP_ALIVE,
    LEASE_REVOKE,
    PUT,
    TRANSACT,
    RangeAnswer,
    is_empty,
    lease_grant_request,
    lease_request,
    put_operation,
    put_request,
    range_operation,
    range_request,
    txn_request,
)
from warren.metadata.etcd_requests import has_changed, versions_found
from warren.metadata.grpc_frames import Status
from warren.metadata.key_order import KeyOrder
from warren.metadata.store import (
    CancelWatch,
    Check,
    Lease,
    LeaseLost,
    MetadataUnavailable,
    MetadataUnusable,
    Operation,
    Record,
    WatchCallback,
)
from warren.metadata.view import Effects, Transaction
from warren.metadata.watchers import OnFault, tell_loop

FORMAT: Final = b"warren 1"
# How long a change is tried: longer than etcd needs to choose another leader.
PATIENCE_S: Final = 10.0
# A keep-alive that is not answered by then is better sent to another member.
KEEP_ALIVE_S_MAX: Final = 1.0
_BEYOND_LIMITS: Final = ("too many operations", "too large", "larger than max")
LIMITS_ADVICE: Final = "start etcd with --max-txn-ops=65536 --max-request-bytes=33554432"

# In `turns` everything reads this, and the end of a lease, which touches nobody knows what, writes
# it. No key is empty.
_EVERYTHING: Final = ""


class EtcdStore:
    """Implements `store.MetadataStore`; `namespace` parts clusters that share one etcd.

    All who follow the store are told of each change that it was made by `writer`. `on_fault` hears
    of a watcher that failed, and of a feed that ended: the copy would be out of date for ever.
    """

    def __init__(
        self,
        address: EtcdAddress,
        namespace: str = DEFAULT_NAMESPACE,
        patience_s: float = PATIENCE_S,
        writer: str = "",
        on_fault: OnFault = tell_loop,
    ) -> None:
        self.address = address
        self._patience_s = patience_s
        self.boot_wait = BootWait(patience_s, attempts=1)
        self.namespace = namespace
        self._prefix = f"/warren/{namespace}/"
        self._on_fault = on_fault
        self._copy = EtcdCopy(on_fault)
        self._client = EtcdClient(address)
        self._feed = EtcdFeed(self._client, self._prefix, self._copy.apply, self._copy.replace)
        self._turns = KeyOrder()
        self._groups = EtcdGroups(
            lambda request: self._client.call(TRANSACT, request),
            self._data_prefix,
            self._prefix + WRITER,
            writer,
        )
        self._work: set[asyncio.Task[Any]] = set()
        self._following: asyncio.Task[None] | None = None

    # Life.

    async def open(self) -> None:
        try:
            await self.boot_wait.until_answered(
                lambda patience_s: self._patiently(self._require_own_key_space, patience_s)
            )
            await self._patiently(self._feed.start)
        except EtcdError as error:
            await self._client.close()
            raise MetadataUnusable(f"{self.address}: {error}") from None
        except MetadataUnusable:
            await self._client.close()
            raise
        except MetadataUnavailable as error:
            await self._client.close()
            raise MetadataUnusable(
                f"{error}; is etcd running at {self.address}, and does it have a majority?"
            ) from None
        self._following = asyncio.get_running_loop().create_task(self._feed.run())
        self._following.add_done_callback(self._feed_ended)

    async def close(self) -> None:
        if self._following is None:
            return
        following, self._following = self._following, None
        if self._work:
            await asyncio.wait(self._work)
        following.cancel()
        await asyncio.wait([following])
        await self._client.close()

    def _feed_ended(self, following: asyncio.Task[None]) -> None:
        """Report a feed that fails; cancelling it is how it is closed."""
        if not following.cancelled() and (error := following.exception()) is not None:
            self._on_fault(f"a change after revision {self._copy.revision}", error)

    @property
    def is_live(self) -> bool:
        """Whether etcd's majority is being heard, as far as is known."""
        return self._feed.is_live

    @property
    def revision(self) -> int:
        """Of etcd, that the copy has come to."""
        return self._copy.revision

    # Reads.

    async def get(self, key: str) -> Record | None:
        return self._copy.view.get(key)

    async def range(self, prefix: str) -> list[Record]:
        return self._copy.view.range(prefix)

    def prepare_with(self, prepare: Callable[[Effects], Awaitable[None]]) -> None:
        """From now on, have this done before any change is told: the feed waits for it."""
        self._feed.prepare = prepare

    def watch(self, callback: WatchCallback) -> CancelWatch:
        return self._copy.watch(callback)

    def on_applied(self, callback: Callable[[int, str], None]) -> None:
        """Call with every revision that all watchers have been told of, and with its writer."""
        self._copy.on_applied = callback

    # Transactions.

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        return await self.commit(checks, changes) is not None

    async def commit(self, checks: Sequence[Check], changes: Sequence[Operation]) -> int | None:
        """As `transact`, with the revision that it was done at; 0 if it has changed nothing."""
        transaction = Transaction.of(checks, changes)
        self._require_open()
        reads = [_EVERYTHING, *(check.key for check in checks)]
        writes = [change.key for change in changes]
        revision: int | None = await self._in_turn(reads, writes, self._commit(transaction))
        return revision

    async def _commit(self, transaction: Transaction) -> int | None:
        expectation = self._copy.expect(transaction)
        try:
            revision: int | None = await self._patiently(
                lambda: self._attempt(transaction, expectation)
            )
            return revision
        finally:
            self._copy.expect_no_more(expectation)

    async def _attempt(self, transaction: Transaction, expectation: Expectation) -> int | None:
        try:
            answer, revision = await self._groups.submit(transaction)
        except NoAnswer:
            await self._patiently(self._write_mark)
            if expectation.is_fulfilled:
                return self._copy.revision
            raise
        except EtcdError as error:
            raise _explained(error) from None
        if answer.is_successful:
            if not has_changed(answer):
                return 0
            await self._copy.reached(revision)
            return revision
        await self._copy.agrees(versions_found(transaction.checks, answer), revision)
        return self._copy.revision if expectation.is_fulfilled else None

    async def _write_mark(self) -> None:
        key = (self._prefix + "mark").encode()
        try:
            answer = await self._client.call(PUT, put_request(key))
        except EtcdError as error:
            raise _explained(error) from None
        await self._copy.reached(answer.revision)

    # Leases.

    async def grant_lease(self, ttl_s: float) -> Lease:
        """etcd counts whole seconds and has a least of its own, so it may be longer."""
        if ttl_s <= 0:
            raise ValueError("a lease lives for some time")
        self._require_open()
        request = lease_grant_request(math.ceil(ttl_s))
        answer = await self._patiently(lambda: self._client.call(LEASE_GRANT, request))
        return Lease(answer.lease_id, ttl_s)

    async def keep_alive(self, lease: Lease) -> None:
        self._require_open()

        async def once() -> int:
            requests = [lease_request(lease.id)]
            async for answer in self._client.stream(LEASE_KEEP_ALIVE, requests, KEEP_ALIVE_S_MAX):
                return answer.ttl_s
            raise AssertionError("a stream that ends raises")

        if await self._patiently(once, min(lease.ttl_s, KEEP_ALIVE_S_MAX)) <= 0:
            raise LeaseLost(f"lease {lease.id:x} expired or was revoked")

    async def revoke(self, lease: Lease) -> None:
        self._require_open()
        await self._in_turn([], [_EVERYTHING], self._revoke(lease))

    async def _revoke(self, lease: Lease) -> bool:
        request = lease_request(lease.id)
        try:
            await self._patiently(lambda: self._client.call(LEASE_REVOKE, request))
        except EtcdError as error:
            if error.code is not Status.NOT_FOUND:
                raise _explained(error) from None
        await self._copy.until(lambda: not self._copy.view.keys_of_lease(lease.id))
        return True

    # How work is done.

    @property
    def _data_prefix(self) -> str:
        return self._prefix + DATA

    def _require_open(self) -> None:
        if self._following is None:
            raise MetadataUnavailable(f"{self.address} is not open")

    async def _in_turn(
        self, reads: Sequence[str], writes: Sequence[str], work: Coroutine[Any, Any, Any]
    ) -> Any:
        """A task of its own: cancelling the caller must not leave half a promise."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        before = self._turns.take(done, reads, writes)
        task = loop.create_task(self._after(before, done, work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)

    async def _after(
        self,
        before: set[asyncio.Future[None]],
        done: asyncio.Future[None],
        work: Coroutine[Any, Any, Any],
    ) -> Any:
        try:
            if before:
                await asyncio.wait(before)
            return await work
        finally:
            work.close()
            done.set_result(None)

    async def _patiently(
        self, attempt: Callable[[], Awaitable[Any]], patience_s: float | None = None
    ) -> Any:
        """Again on the next member while nobody answers; the last failure when time is up."""
        deadline = asyncio.get_running_loop().time() + (
            self._patience_s if patience_s is None else patience_s
        )
        while True:
            try:
                return await attempt()
            except NoAnswer:
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _require_own_key_space(self) -> None:
        """The first node of a cluster leaves a sign; what bears another, or none, is left alone."""
        space = self._prefix.encode()
        key, end = space + b"format", space[:-1] + bytes([space[-1] + 1])
        put = put_operation(put_request(key, FORMAT))
        look = range_operation(range_request(key))
        first = range_operation(range_request(space, end, limit=1))
        request = txn_request([is_empty(space, end)], [put], [look, first])
        answer = await self._client.call(TRANSACT, request)
        if answer.is_successful:
            return
        reads = [part for part in answer.parts if isinstance(part, RangeAnswer)]
        (found, *_) = [pair for read in reads for pair in read.pairs]
        if (found.key, found.value) != (key, FORMAT):
            raise MetadataUnusable(
                f"{self.address} holds '{found.key.decode(errors='replace')}' = "
                f"{found.value[:40]!r}, which this version did not write (it marks its key space "
                f"with '{key.decode()}' = {FORMAT!r}): use another cluster name, or another etcd"
            )


def _explained(error: EtcdError) -> Exception:
    if "lease not found" in error.text:
        return LeaseLost("a lease that a change was tied to expired or was revoked")
    if any(words in error.text for words in _BEYOND_LIMITS):
        return MetadataUnavailable(f"{error}; {LIMITS_ADVICE}")
    return MetadataUnavailable(str(error))
