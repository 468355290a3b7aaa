"""What a session asks of the node it runs on, whoever is at the other end of it.

A client's socket is one such end (`connection.py`), the node itself another (`direct.py`). Both
add how their session ends and where its answers go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warren.auth.access import AccessControl
from warren.auth.users import User
from warren.broker.vhost import VirtualHost
from warren.channels.reply_registry import ReplyRegistry
from warren.queues.delivery import TurnClock
from warren.server.context import ConnectionContext, new_token


class SessionServices:
    __slots__ = ("_context", "connection_id", "user", "vhost")

    connection_id: str
    user: User
    vhost: VirtualHost

    def __init__(self, context: ConnectionContext) -> None:
        self._context = context

    @property
    def full_name(self) -> str:
        return self.connection_id

    def pid(self, channel_number: int = 0) -> str:
        return self._context.pid(0, channel_number)

    @property
    def access(self) -> AccessControl:
        return self._context.broker.access

    @property
    def turn_clock(self) -> TurnClock:
        return self._context.turn_clock

    @property
    def reply_registry(self) -> ReplyRegistry:
        return self._context.reply_registry

    @property
    def consumer_timeout_ms(self) -> int:
        return self._context.config.consumer_timeout_ms

    def random_name(self, prefix: str) -> str:
        return prefix + new_token()

    def admit_channel(self) -> None:
        self._context.admission.open_channel(self.user)

    def release_channel(self) -> None:
        self._context.admission.close_channel(self.user)

    async def until(self, register: Callable[[Callable[[], None]], None]) -> None:
        done = asyncio.Event()
        register(done.set)
        await done.wait()

    @property
    def is_frozen(self) -> bool:
        return not self._context.tenure.holds()

    async def acting(self) -> None:
        await self._context.frozen.acting()

    async def storage_ready(self) -> None:
        if self._context.open_messages is not None:
            await self._context.open_messages(self.vhost.name)

    async def deletions_done(self) -> None:
        await self._context.queue_factory.removals_done()
