"""Authorization of one login by backends other than the internal one, and its latest answers.

RabbitMQ keeps the last twelve answers per channel until the channel has nothing to do, and asks
again then. A busy channel of RabbitMQ never asks again. Here answers have an age, and channels look
again at every tick: what a backend has revoked ends within `ANSWER_MS_MAX` and one tick, on busy
channels, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from warren.auth.backends import Backend, Identity
from warren.auth.questions import PERMITTED, AnswerPending, Question, Verdict
from warren.model.clock import Clock
from warren.model.logs import EventLog

ANSWER_MS_MAX: Final = 60_000
ANSWERS_PER_LOGIN_MAX: Final = 256

_log = EventLog("access")


class Authorization:
    """Grants of one login: all of these backends have to agree."""

    def __init__(self, user: str, grants: Sequence[tuple[Backend, Identity]], clock: Clock) -> None:
        self.user = user
        self.grants = tuple(grants)
        self._clock = clock
        self._answers: dict[Question, tuple[int, Verdict]] = {}

    @property
    def expires_at_ms(self) -> int | None:
        """Wall-clock time at which the first of the grants ends; None: never."""
        ends = [who.expires_at_ms for _, who in self.grants if who.expires_at_ms is not None]
        return min(ends, default=None)

    def verdict(self, question: Question) -> Verdict:
        """Return the answer, or raise AnswerPending."""
        for backend, who in self.grants:
            known = backend.known(who, question)
            if known is None:
                return self._kept(question)
            if not known.is_permitted:
                return _told(self.user, question, replace(known, backend=backend.name))
        return PERMITTED

    def _kept(self, question: Question) -> Verdict:
        kept = self._answers.get(question)
        if kept is not None:
            asked_at_ms, verdict = kept
            # An error is told once: the backend may be up again.
            if verdict.error:
                del self._answers[question]
            if self._clock.now_ms() - asked_at_ms <= ANSWER_MS_MAX:
                return verdict
        raise AnswerPending(lambda: self.ask(question))

    async def ask(self, question: Question) -> None:
        """Ask the backends in order, and keep what they say."""
        verdict = PERMITTED
        for backend, who in self.grants:
            verdict = backend.known(who, question) or await backend.ask(who, question)
            if not verdict.is_permitted:
                verdict = _told(self.user, question, replace(verdict, backend=backend.name))
                break
        self._answers.pop(question, None)
        if len(self._answers) >= ANSWERS_PER_LOGIN_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[question] = (self._clock.now_ms(), verdict)

    async def renewed(self, secret: bytes) -> Authorization:
        """Return the authorization that a new secret gives. Raises LoginRefused, BackendError."""
        grants = [(backend, await backend.renew(who, secret)) for backend, who in self.grants]
        return Authorization(self.user, grants, self._clock)


def _told(user: str, question: Question, verdict: Verdict) -> Verdict:
    if verdict.error:
        _log.error(
            "auth backend failed: access refused", backend=verdict.backend, user=user,
            subject=question.subject, vhost=question.vhost, name=question.name,
            reason=verdict.error,
        )  # fmt: skip
    return verdict
