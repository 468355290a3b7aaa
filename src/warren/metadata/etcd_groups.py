"""Transactions that come while another is under way go to etcd together, as one request.

Every request costs etcd a write to its log and every node a watch event of its own, most of it
whatever is in them. Transactions that are under way at once share no key that one of them writes
(`turns` sees to that), so they can be parts of one: each with its own checks, each done or refused
by itself. They then have one revision, and everybody is told of them in one go.

A lone transaction does not wait for company, but for what else this turn of the loop brings if the
one before had some: clients that were answered together come back together. What is large goes
alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from warren.metadata.etcd_client import EtcdError, NoAnswer
from warren.metadata.etcd_messages import TransactionAnswer
from warren.metadata.etcd_requests import group_request, transaction_request
from warren.metadata.store import Put
from warren.metadata.view import Transaction

# Within what a stock etcd allows in a request (128 operations, nested ones counted from what their
# parent leaves, and 1.5 MiB).
GROUP_TRANSACTIONS_MAX: Final = 64
GROUPED_OPERATIONS_MAX: Final = 32
GROUP_BYTES_MAX: Final = 524_288


class Outcome(NamedTuple):
    answer: TransactionAnswer
    """Answer of etcd to this transaction."""
    revision: int


@dataclass(slots=True)
class _Entry:
    transaction: Transaction
    size_bytes: int
    """More than a group may have, if it is not to be in one."""
    outcome: asyncio.Future[Outcome]


class EtcdGroups:
    """`call` sends a transaction request; `prefix` comes before all keys of the data.

    `writer`, if given, is written along under `writer_key`.
    """

    def __init__(
        self,
        call: Callable[[bytes], Awaitable[TransactionAnswer]],
        prefix: str,
        writer_key: str,
        writer: str,
    ) -> None:
        self._call = call
        self._prefix = prefix
        self._writer = Put(writer_key, writer.encode()) if writer else None
        self._waiting: deque[_Entry] = deque()
        self._is_sending = False
        self._size_before = 0
        self._sending: asyncio.Task[None] | None = None

    async def submit(self, transaction: Transaction) -> Outcome:
        """Raises NoAnswer or EtcdError."""
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(transaction, _size(transaction), outcome))
        if not self._is_sending:
            self._is_sending = True
            if self._size_before > 1:
                await asyncio.sleep(0)
            await self._send_next()
            if self._waiting:
                # Those who came meanwhile are not this caller's work.
                self._sending = asyncio.get_running_loop().create_task(self._send_rest())
            else:
                self._is_sending = False
        return await outcome

    async def _send_rest(self) -> None:
        while self._waiting:
            await self._send_next()
        self._is_sending = False

    async def _send_next(self) -> None:
        group = [self._waiting.popleft()]
        size = group[0].size_bytes
        while self._waiting and len(group) < GROUP_TRANSACTIONS_MAX:
            size += self._waiting[0].size_bytes
            if size > GROUP_BYTES_MAX:
                break
            group.append(self._waiting.popleft())
        self._size_before = len(group)
        if len(group) > 1 and await self._send_group(group):
            return
        for entry in group:
            await self._send_alone(entry)

    async def _send_group(self, group: list[_Entry]) -> bool:
        """False if etcd will not have it: one of them is to blame, and the others are not."""
        request = group_request(self._prefix, [e.transaction for e in group], self._writer)
        try:
            answer = await self._call(request)
        except EtcdError:
            return False
        except BaseException as error:  # noqa: BLE001 - it is those who wait that are told
            for entry in group:
                _fail(entry, error)
            return True
        for entry, part in zip(group, answer.parts, strict=False):
            assert isinstance(part, TransactionAnswer), "each part is a transaction"
            _tell(entry, Outcome(part, answer.revision))
        return True

    async def _send_alone(self, entry: _Entry) -> None:
        try:
            request = transaction_request(self._prefix, entry.transaction, self._writer)
            answer = await self._call(request)
        except BaseException as error:  # noqa: BLE001 - it is the one who waits that is told
            _fail(entry, error)
        else:
            _tell(entry, Outcome(answer, answer.revision))


def _tell(entry: _Entry, outcome: Outcome) -> None:
    if not entry.outcome.done():
        entry.outcome.set_result(outcome)


def _fail(entry: _Entry, error: BaseException) -> None:
    if not entry.outcome.done():
        own = NoAnswer(str(error)) if isinstance(error, NoAnswer) else error
        entry.outcome.set_exception(own)


def _size(transaction: Transaction) -> int:
    if len(transaction.checks) + len(transaction.changes) > GROUPED_OPERATIONS_MAX:
        return GROUP_BYTES_MAX + 1
    values = sum(len(c.value) for c in transaction.changes if isinstance(c, Put))
    return values + sum(map(len, transaction.keys))
