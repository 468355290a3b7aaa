"""Makes guessing of passwords slow: whoever failed too often is not looked at for a while.

Failures are counted per address and user, and per address alone, where many users may be at home:
there ten times as many are allowed, and users who have logged in from there are not held off for
the failures of others, since behind a proxy all have one address. Nobody can lock a user out from
elsewhere. Who is held off is refused even with the right password: otherwise the guessing could go
on.
A failure costs the same memory whatever was sent: names are kept as digests, entries that are over
are removed with the next failure, and a name longer than any user's is refused unseen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, TypeAlias

from warren.model.clock import Clock
from warren.model.errors import LoginRefused

WINDOW_MS: Final = 60_000
FAILURES_MAX_DEFAULT: Final = 30
# How many more an address may have for all its users together.
USERS_PER_ADDRESS: Final = 10
# Addresses and users remembered; the longest known is forgotten for one that is new.
REMEMBERED_MAX: Final = 10_000

# AMQP's short strings, in which names of users travel, are no longer.
USER_NAME_BYTES_MAX: Final = 255

_ALL_USERS: Final = b""

# An address, and the digest of a user's name.
_Key: TypeAlias = tuple[str, bytes]


class TooManyFailures(LoginRefused):
    """`wait_s` from now it may be tried again."""

    def __init__(self, reason: str, wait_s: int) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


@dataclass(slots=True)
class _Failures:
    until_ms: int
    count: int = 0


class LoginGuard:
    """`failures_max` a minute; 0: as many as one likes."""

    def __init__(self, clock: Clock, failures_max: int = FAILURES_MAX_DEFAULT) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._failures: dict[_Key, _Failures] = {}
        # Who has logged in from where; the values mean nothing.
        self._at_home: dict[_Key, None] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def require_room(self, address: str, user: str) -> None:
        """Raise TooManyFailures, or LoginRefused for a name that no user can have."""
        if len(user.encode(errors="replace")) > USER_NAME_BYTES_MAX:
            raise LoginRefused(
                f"user '{user[:40]}...' - the name is longer than {USER_NAME_BYTES_MAX} bytes"
            )
        if not self._failures:
            return
        key = _key(address, user)
        self._require_room(key, self._failures_max, f"user '{user}' - ")
        if key not in self._at_home:
            self._require_room((address, _ALL_USERS), self._failures_max * USERS_PER_ADDRESS, "")

    def failed(self, address: str, user: str) -> None:
        if self._failures_max:
            self._count(_key(address, user))
            self._count((address, _ALL_USERS))

    def succeeded(self, address: str, user: str) -> None:
        key = _key(address, user)
        self._failures.pop(key, None)
        if key not in self._at_home:
            if len(self._at_home) >= REMEMBERED_MAX:
                del self._at_home[next(iter(self._at_home))]
            self._at_home[key] = None

    def _require_room(self, key: _Key, limit: int, who: str) -> None:
        known = self._failures.get(key)
        if known is None:
            return
        left_ms = known.until_ms - self._clock.now_ms()
        if left_ms <= 0:
            del self._failures[key]
        elif known.count >= limit:
            wait_s = -(-left_ms // 1000)
            raise TooManyFailures(
                f"{who}too many failed logins from {key[0]}; next try in {wait_s} s", wait_s
            )

    def _count(self, key: _Key) -> None:
        now_ms = self._clock.now_ms()
        self._sweep(now_ms)
        known = self._failures.get(key)
        if known is None:
            if len(self._failures) >= REMEMBERED_MAX:
                del self._failures[next(iter(self._failures))]
            known = self._failures[key] = _Failures(now_ms + WINDOW_MS)
        known.count += 1

    def _sweep(self, now_ms: int) -> None:
        """Remove entries that are over; the oldest come first, as all last equally long."""
        while self._failures:
            first = next(iter(self._failures))
            if self._failures[first].until_ms > now_ms:
                return
            del self._failures[first]


def _key(address: str, user: str) -> _Key:
    return address, hashlib.blake2b(user.encode(errors="replace"), digest_size=16).digest()
