"""Keeps this node's session alive, and with it the node's tenure (`flow/tenure.py`).

    a keep-alive was answered -> the tenure is extended, counted from when it was sent
    no answer                 -> once more, at the next member of the store, until there is one
    the tenure is near its end -> write what is due, freeze
    the lease is gone, or our session is not in the store any more
                              -> freeze, take another lease and put another session

A session that is lost is a life that is over: what was tied to it (transient and exclusive queues)
is gone everywhere, and what was encoded for clients but not written is void. The process and its
durable queues live on, under a new incarnation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from warren.broker.broker import Broker
from warren.cluster.sessions import (
    SESSION_KEEP_ALIVE_S,
    SESSION_MARGIN_S,
    SESSION_TTL_S,
)
from warren.metadata.store import Lease, MetadataError
from warren.model.logs import EventLog
from warren.server.context import ConnectionContext, boottime_s

RETRY_S: Final = 0.2
# So long before its end a tenure is given up in good order, while what is due may yet be written.
ORDERLY_S: Final = 0.5

_log = EventLog("cluster")


class SessionKeeper:
    """`put_session` puts a session of a new incarnation with a lease; raises MetadataError."""

    def __init__(
        self, context: ConnectionContext, put_session: Callable[[Lease], Awaitable[None]]
    ) -> None:
        self._context = context
        self._put_session = put_session
        self._has_joined = False
        self._is_gone = False
        self._is_silent = False
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _broker(self) -> Broker:
        return self._context.broker

    def start(self) -> None:
        """There is a lease; the session comes with `join`."""
        self._context.tenure.followers.append(self)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def join(self) -> None:
        """Put the session, and act. Raises MetadataError."""
        sent_at_s = boottime_s()
        await self._broker.keep_alive()
        await self._put_session(self._broker.lease)
        self._has_joined = True
        self._extend(sent_at_s)
        self._wanted.set()

    async def stop(self) -> None:
        """Twice is once."""
        self._has_joined = False
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def session_gone(self) -> None:
        """Somebody has ended our session: whoever waited for that may act from now on."""
        if self._has_joined and not self._is_gone:
            _log.warning("this node's session has been ended; it takes another")
            self._is_gone = True
            self._context.tenure.freeze()
            self._wanted.set()

    # The tenure tells.

    def frozen(self) -> None:
        self._wanted.set()

    def thawed(self) -> None:
        """Nothing to do: it was us."""

    # The work.

    async def _run(self) -> None:
        while True:
            wait_s = await self._keep()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()
            self._wanted.clear()

    async def _keep(self) -> float:
        """How long to wait before the next time."""
        sent_at_s = boottime_s()
        try:
            is_same = await self._broker.keep_alive()
            if self._has_joined and (self._is_gone or not is_same):
                await self._begin_another_life()
        except MetadataError as error:
            self._note_silence(error)
            return RETRY_S
        self._is_silent = False
        if self._has_joined:
            self._extend(sent_at_s)
        is_late = self._has_joined and self._context.tenure.is_frozen
        return RETRY_S if is_late else SESSION_KEEP_ALIVE_S

    async def _begin_another_life(self) -> None:
        self._context.tenure.freeze()
        self._context.flush_scheduler.forfeit()
        await self._put_session(self._broker.lease)
        self._is_gone = False

    def _note_silence(self, error: MetadataError) -> None:
        if not self._is_silent:
            _log.warning("the node's session could not be kept alive", reason=error)
        self._is_silent = True

    def _extend(self, sent_at_s: float) -> None:
        until_s = sent_at_s + SESSION_TTL_S - SESSION_MARGIN_S
        self._context.extend_tenure(until_s)
        if self._timer is not None:
            self._timer.cancel()
        wait_s = max(0.0, until_s - ORDERLY_S - boottime_s())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._give_up)

    def _give_up(self) -> None:
        if self._context.tenure.holds():
            self._context.flush_scheduler.flush()
            self._context.tenure.freeze()
