"""The event loop of one simulated process: asyncio's tasks and futures in the time of a world.

Everything that a process does happens in a turn: something from outside (a packet, a timer, a
client) is handled, then all that was put off with `call_soon`. A process that stands still has no
turns; what would have begun one waits. A process that is dead has none any more.
"""

from __future__ import annotations

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from support.schedule import Schedule

CALLS_PER_TURN_MAX: Final = 100_000


class EndlessTurn(Exception):
    """A turn does not end: something puts itself off again and again."""


class Deferred:
    """A call that is due later, and can be cancelled."""

    __slots__ = ("args", "callback", "context", "due_s", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Any, due_s: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.due_s = due_s
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due_s

    def run(self) -> None:
        if self.is_cancelled:
            return
        if self.context is None:
            self.callback(*self.args)
        else:
            self.context.run(self.callback, *self.args)


class NodeLoop(asyncio.AbstractEventLoop):
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.is_paused = False
        self.is_dead = False
        self.turns = 0
        self.connect: Callable[[str, Any], Awaitable[Any]] | None = None
        """How the process reaches another node, by name."""
        self._is_running = False
        self._ready: deque[Deferred] = deque()
        self._waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    # Turns.

    def run(self, do: Callable[..., object], *args: Any) -> None:
        """Do something in a turn of its own: now, or when the process goes on."""
        if self.is_dead:
            return
        if self.is_paused:
            self._waiting.append((do, args))
            return
        if self._is_running:
            do(*args)
            return
        before = events._get_running_loop()
        events._set_running_loop(self)
        self._is_running = True
        self.turns += 1
        try:
            do(*args)
            self._finish_turn()
        finally:
            self._is_running = False
            events._set_running_loop(before)

    def _finish_turn(self) -> None:
        calls = 0
        while self._ready and not self.is_dead:
            self._ready.popleft().run()
            calls += 1
            if calls > CALLS_PER_TURN_MAX:
                raise EndlessTurn

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        waiting, self._waiting = self._waiting, []
        for do, args in waiting:
            self.run(do, *args)

    def die(self) -> None:
        """Nothing happens in this process any more."""
        self.is_dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._ready.clear()
        self._waiting.clear()

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.schedule.now_us / 1_000_000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self.is_dead

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Deferred:
        deferred = Deferred(callback, args, context, self.time())
        self._ready.append(deferred)
        if not self._is_running and len(self._ready) == 1:
            self.schedule.after(0, lambda: self.run(_nothing))
        return deferred

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Deferred:
        delay_us = max(0, round(delay * 1_000_000))
        deferred = Deferred(callback, args, context, self.time() + delay)

        def due() -> None:
            if not deferred.is_cancelled:
                self.run(deferred.run)

        self.schedule.after(delay_us, due)
        return deferred

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> Deferred:
        return self.call_later(when - self.time(), callback, *args, context=context)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, ssl: Any = None
    ) -> tuple[Any, Any]:
        protocol = protocol_factory()
        assert self.connect is not None, "a process that connects is in a network"
        return await self.connect(host, protocol), protocol

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing: what goes wrong in a turn is raised there."""


class SimClock:
    """The `Clock` of a process."""

    def __init__(self, loop: NodeLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return 1_000 + self._loop.schedule.now_us // 1_000

    def wall_seconds(self) -> int:
        return 1_700_000_000 + self._loop.schedule.now_us // 1_000_000

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Deferred:
        return self._loop.call_later(delay_ms / 1_000, callback)


def _nothing() -> None:
    """A turn that has only what was put off."""
