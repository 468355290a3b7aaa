"""Foreign logins of the page: users whom another backend than the internal one has let in.

The cookie of a session names a user, and an internal user is found by its name. Users of an LDAP
directory or with a token are known from their login only, so the node keeps them, in memory: they
sign in again after a restart, and at each node of a cluster.
"""

from __future__ import annotations

from typing import Final

from warren.auth.users import User
from warren.management.page.signing import Session

LOGINS_MAX: Final = 1_000
"""Users kept at a time; the one that signed in first goes for a new one."""


class ForeignLogins:
    def __init__(self) -> None:
        self._users: dict[str, User] = {}

    def keep(self, session: Session, user: User) -> None:
        if len(self._users) >= LOGINS_MAX:
            del self._users[next(iter(self._users))]
        self._users[session.secret] = user

    def user_of(self, session: Session, now_s: float) -> User | None:
        """Return the user of a session, until what the user has logged in with has expired."""
        user = self._users.get(session.secret)
        if user is None:
            return None
        ends_at_ms = None if user.authorization is None else user.authorization.expires_at_ms
        if ends_at_ms is not None and ends_at_ms <= 1000 * now_s:
            self.forget(session)
            return None
        return user

    def forget(self, session: Session) -> None:
        self._users.pop(session.secret, None)
