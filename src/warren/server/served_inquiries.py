"""Answers to what the management API of another node asks: a task each, for as long as its link.

See `cluster/link/inquiries.py`. An answer is sent in parts, and waits while the other side has
several that it has not used yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from warren.cluster.link.control import (
    AnswerBegins,
    AnswerPart,
    Control,
    Dismiss,
    Inquire,
    OfAsker,
    WantMore,
)
from warren.cluster.link.inquiries import PART_BYTES_MAX, PARTS_AHEAD_MAX

# Of one link: more than that the other side's API never asks at once.
INQUIRIES_MAX: Final = 1_024
_UNAVAILABLE: Final = 503
_BROKEN: Final = 500


class AnswerStream:
    """Where one answer goes."""

    def __init__(self, number: int, tell: Callable[[Control], None]) -> None:
        self._number = number
        self._tell = tell
        self._room = asyncio.Semaphore(PARTS_AHEAD_MAX)
        self._is_begun = False
        self._is_ended = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._is_begun = True
        self._tell(AnswerBegins(self._number, status, dict(headers)))

    async def send(self, data: bytes, is_last: bool) -> None:
        for start in range(0, max(1, len(data)), PART_BYTES_MAX):
            part = data[start : start + PART_BYTES_MAX]
            ends = is_last and start + PART_BYTES_MAX >= len(data)
            if part or ends:
                await self._room.acquire()
                self._is_ended = ends
                self._tell(AnswerPart(self._number, part, ends))

    def want_more(self) -> None:
        self._room.release()

    def end(self) -> None:
        """However it went, whoever asked hears of the end."""
        if not self._is_begun:
            self.begin(_BROKEN, {})
        if not self._is_ended:
            self._tell(AnswerPart(self._number, b"", True))


# The name of the other node, its question, and where the answer goes.
Answerer: TypeAlias = Callable[[str, Inquire, AnswerStream], Coroutine[Any, Any, None]]


async def nobody_answers(_peer: str, _question: Inquire, stream: AnswerStream) -> None:
    """Of a node without an API, or whose API is not there yet."""
    stream.begin(_UNAVAILABLE, {})


class ServedInquiries:
    def __init__(
        self,
        peer: str,
        tell: Callable[[Control], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        answerer: Answerer,
    ) -> None:
        self._peer = peer
        self._tell = tell
        self._spawn = spawn
        self._answerer = answerer
        self._open: dict[int, tuple[AnswerStream, asyncio.Task[None]]] = {}

    def heard(self, control: OfAsker) -> None:
        match control:
            case Inquire():
                self._begin(control)
            case WantMore(number):
                if number in self._open:
                    self._open[number][0].want_more()
            case Dismiss(number):
                if number in self._open:
                    self._open.pop(number)[1].cancel()

    def close(self) -> None:
        """The link has ended."""
        answers, self._open = self._open, {}
        for _, task in answers.values():
            task.cancel()

    def _begin(self, question: Inquire) -> None:
        stream = AnswerStream(question.id, self._tell)
        if len(self._open) >= INQUIRIES_MAX:
            stream.begin(_UNAVAILABLE, {})
            stream.end()
            return
        self._open[question.id] = (stream, self._spawn(self._answer(question, stream)))

    async def _answer(self, question: Inquire, stream: AnswerStream) -> None:
        try:
            await self._answerer(self._peer, question, stream)
        finally:
            # Not if it was dismissed: then nobody waits for the end.
            if self._open.pop(question.id, None) is not None:
                stream.end()
