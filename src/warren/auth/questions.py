"""Questions about access that a backend answers, and how a caller waits for an answer.

Permission checks are plain functions, called in the middle of handlers that must not wait: a
publish is checked between two others of the same read. A remote backend cannot answer there. So a
check whose answer is not known raises `AnswerPending`, before anything has happened; whoever called
the handler asks the backend, and calls the handler again. Now the answer is known. Handlers make
all their checks before they change anything, so calling one twice does no harm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Subject: TypeAlias = Literal["vhost", "queue", "exchange", "topic"]

QUESTIONS_PER_CALL_MAX: Final = 64
"""Most questions that one handler may have to wait for; a declare has three at most."""


@dataclass(frozen=True, slots=True)
class Question:
    """May a user do this? For `vhost`, `name` is empty; for `topic`, it is the exchange's."""

    subject: Subject
    vhost: str
    name: str = ""
    permission: str = ""
    routing_key: str = ""
    peer: str = ""
    """Address of the client that opens a virtual host; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Answer of a backend. `error` is set if the backend could not decide, which refuses, too."""

    is_permitted: bool
    error: str = ""
    backend: str = ""

    @property
    def explanation(self) -> str:
        """Text that RabbitMQ adds to the refusal; empty for a plain no."""
        if not self.error:
            return ""
        return f", backend {self.backend} returned an error: {self.error}"


PERMITTED: Final = Verdict(True)
REFUSED: Final = Verdict(False)


class AnswerPending(Exception):
    """The answer is not known: await `ask()`, then repeat the call that raised this."""

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a backend has to be asked first")
        self.ask = ask


class TooManyQuestions(Exception):
    """A handler asked something new each time it was called; a fault of ours."""


async def once_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Return what `call` returns, asking backends as often as it needs an answer."""
    for _ in range(QUESTIONS_PER_CALL_MAX):
        try:
            return await call()
        except AnswerPending as pending:
            await pending.ask()
    raise TooManyQuestions(f"more than {QUESTIONS_PER_CALL_MAX} questions of access in one call")
