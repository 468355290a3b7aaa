"""Chain of auth backends: who lets a user in, and who says what the user may do.

    auth_backends.1       = internal        one backend for both
    auth_backends.2.authn = ldap            one that knows passwords ...
    auth_backends.2.authz = internal        ... and another one that knows permissions

A login goes down the chain. The first backend that accepts it ends the search: later ones are not
asked. A backend that refuses, and one that is down, both mean that the next one is asked; if none
accepts, the reason of the last is the reason of the refusal, as in RabbitMQ. So a backend that is
down never lets anybody in; but a user whom it would have refused can still be let in by the next
one, which is what an operator asks for who writes a second line.

What a user may do is asked of the backends that are named for it (`authz`) beside the one that
accepted the login, or of that one itself: never of another line of the chain. If there are several,
all must agree.

*The internal backend alone.* A chain of `internal` is what nearly everybody has, and the publish
path must not pay for the others. Its users carry no `authorization`: all checks go straight to
`AccessControl`, which answers from memory, and logins answer at once. The same holds for users whom
another backend has let in, if `authz` is internal.

*Backends that have to be asked.* Everybody else has an `Authorization`, which keeps answers for a
while. HTTP and LDAP cannot answer at once. Making every permission check a coroutine would make
each publish one. Instead a check that needs an answer raises `AnswerPending` before anything has
happened, and is repeated when the answer is there (`questions`). Who repeats it: the session for
methods, the intake for publishes, the handshake for logins and virtual hosts, the HTTP API for
requests. The connection is not read from meanwhile, so the order of its frames is kept; all
others go on.

*What bounds a wait.* A backend has so many threads, so many requests that wait for one, and a
timeout (`server/backends/pool.py`). A login that finds the queue full is refused at once. The time
limit of the handshake runs on meanwhile.

*What a login is remembered by.* The cache backend stands in front of another one and keeps what it
said for `auth_cache.cache_ttl`. It keeps digests of passwords, salted anew at each start, never
passwords.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from warren.auth.access import AccessControl
from warren.auth.authorization import Authorization
from warren.auth.backends import INTERNAL, Attempt, Backend, BackendError, Identity
from warren.auth.users import User
from warren.model.clock import Clock
from warren.model.errors import LoginRefused
from warren.model.logs import EventLog

_log = EventLog("access")


@dataclass(frozen=True, slots=True)
class Link:
    """One line of the chain. Without `authz`, `authn` answers for permissions, too."""

    authn: Backend
    authz: tuple[Backend, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """Answer of one backend, for a dry run."""

    backend: str
    question: str
    answer: str
    reason: str = ""


def _unheard(step: Step) -> None:
    pass


class BackendChain:
    def __init__(self, links: Sequence[Link], access: AccessControl, clock: Clock) -> None:
        assert links, "an empty chain lets nobody in: the configuration has at least one backend"
        self.links = tuple(links)
        self._access = access
        self._clock = clock

    @property
    def is_internal_only(self) -> bool:
        """True if every login can be answered at once."""
        return all(link.authn.name == INTERNAL and not link.authz for link in self.links)

    @property
    def access(self) -> AccessControl:
        return self._access

    async def log_in(self, attempt: Attempt, tell: Callable[[Step], None] = _unheard) -> User:
        """Return the user whom the first accepting backend lets in. Raises LoginRefused."""
        refusal = LoginRefused(f"No modules checked '{attempt.name}'")
        for link in self.links:
            try:
                who = await self._authenticated(link.authn, attempt, tell)
                return await self._authorized(link, who, attempt, tell)
            except LoginRefused as refused:
                refusal = refused
        raise refusal

    async def _authenticated(
        self, backend: Backend, attempt: Attempt, tell: Callable[[Step], None]
    ) -> Identity:
        try:
            who = await backend.log_in(attempt)
        except LoginRefused as refused:
            tell(Step(backend.name, "authentication", "refused", str(refused)))
            raise
        except BackendError as error:
            tell(Step(backend.name, "authentication", "error", str(error)))
            raise self._failed(backend, "authenticating", attempt, error) from None
        tell(Step(backend.name, "authentication", "accepted", f"as '{who.name}'"))
        return who

    async def _authorized(
        self, link: Link, who: Identity, attempt: Attempt, tell: Callable[[Step], None]
    ) -> User:
        grants = [] if link.authz else [(link.authn, who)]
        tags = list(who.tags)
        known_as = Attempt(who.name, attempt.password)
        for backend in link.authz:
            try:
                grant = await backend.authorize(known_as)
            except LoginRefused as refused:
                tell(Step(backend.name, "authorization", "refused", str(refused)))
                raise
            except BackendError as error:
                tell(Step(backend.name, "authorization", "error", str(error)))
                raise self._failed(backend, "authorizing", known_as, error) from None
            tell(Step(backend.name, "authorization", "accepted", _shown(grant.tags)))
            grants.append((backend, grant))
            tags += grant.tags
        user = self._user(who.name, tuple(dict.fromkeys(tags)), grants, link)
        return replace(user, proof=attempt) if user.origin else user

    def _user(
        self,
        name: str,
        tags: tuple[str, ...],
        grants: Sequence[tuple[Backend, Identity]],
        link: Link,
    ) -> User:
        if link.authn.name == INTERNAL and not link.authz:
            user = self._access.directory.user(name)
            assert user is not None, "nothing was awaited since the internal backend found it"
            return user
        if all(backend.name == INTERNAL for backend, _ in grants):
            return User(name, tags=tags, origin=link.authn.name)
        authorization = Authorization(name, grants, self._clock)
        return User(name, tags=tags, origin=link.authn.name, authorization=authorization)

    def _failed(
        self, backend: Backend, doing: str, attempt: Attempt, error: BackendError
    ) -> LoginRefused:
        _log.error(
            "auth backend failed: login refused", backend=backend.name, user=attempt.name,
            reason=error,
        )  # fmt: skip
        return LoginRefused(f"{backend.name} failed {doing} {attempt.name}: {error}")


def _shown(tags: Sequence[str]) -> str:
    return f"tags: {', '.join(tags)}" if tags else "no tags"
