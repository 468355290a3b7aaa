"""Cache backend: keeps what another backend has said, for a while.

Answers are kept for `ttl_ms`. Refusals are kept only if the configuration says so, and errors
never. Passwords are kept as keyed digests, with a key of this process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Hashable
from typing import Final, TypeAlias

from warren.auth.backends import CACHE, Attempt, Backend, Identity
from warren.auth.questions import Question, Verdict
from warren.model.clock import Clock
from warren.model.errors import LoginRefused

ENTRIES_MAX: Final = 65_536
"""Answers kept at a time; the oldest goes for a new one."""
_KEY_BYTES: Final = 32

_Answer: TypeAlias = Identity | LoginRefused | Verdict


class CacheBackend:
    name = CACHE

    def __init__(
        self,
        authn: Backend,
        authz: Backend,
        ttl_ms: int,
        keeps_refusals: bool,
        clock: Clock,
    ) -> None:
        self._authn = authn
        self._authz = authz
        self._ttl_ms = ttl_ms
        self._keeps_refusals = keeps_refusals
        self._clock = clock
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._kept: dict[Hashable, tuple[int, _Answer]] = {}

    async def log_in(self, attempt: Attempt) -> Identity:
        return await self._login("authn", self._authn, attempt)

    async def authorize(self, attempt: Attempt) -> Identity:
        return await self._login("authz", self._authz, attempt)

    async def _login(self, kind: str, backend: Backend, attempt: Attempt) -> Identity:
        key = (kind, attempt.name, self._digest(attempt.password))
        kept = self._get(key)
        if isinstance(kept, Identity) and not self._is_over(kept):
            return kept
        if isinstance(kept, LoginRefused):
            raise LoginRefused(str(kept))
        try:
            step = backend.log_in if kind == "authn" else backend.authorize
            who = await step(attempt)
        except LoginRefused as refused:
            if self._keeps_refusals:
                self._put(key, refused)
            raise
        self._put(key, who)
        return who

    def known(self, who: Identity, question: Question) -> Verdict | None:
        answer = self._get(_key(who, question))
        if isinstance(answer, Verdict):
            return answer
        return self._authz.known(who, question)

    async def ask(self, who: Identity, question: Question) -> Verdict:
        verdict = await self._authz.ask(who, question)
        if verdict.is_permitted or (self._keeps_refusals and not verdict.error):
            self._put(_key(who, question), verdict)
        return verdict

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        return await self._authz.renew(who, secret)

    def _digest(self, password: bytes | None) -> bytes | None:
        if password is None:
            return None
        return hmac.new(self._key, password, hashlib.sha256).digest()

    def _is_over(self, who: Identity) -> bool:
        ends_at_ms = who.expires_at_ms
        return ends_at_ms is not None and ends_at_ms <= 1000 * self._clock.wall_seconds()

    def _get(self, key: Hashable) -> _Answer | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        until_ms, answer = kept
        if until_ms <= self._clock.now_ms():
            del self._kept[key]
            return None
        return answer

    def _put(self, key: Hashable, answer: _Answer) -> None:
        if self._ttl_ms == 0:
            return
        self._kept.pop(key, None)
        if len(self._kept) >= ENTRIES_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (self._clock.now_ms() + self._ttl_ms, answer)


def _key(who: Identity, question: Question) -> Hashable:
    """Key of an answer. The state is a part of it, and secrets in it do not show in its text."""
    return (who.name, who.tags, repr(who.state), question)
