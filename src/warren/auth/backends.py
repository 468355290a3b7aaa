"""Interface of backends: they say who a user is, and what the user may do.

The names are those of RabbitMQ's modules, since they are in the error texts that clients get.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from warren.auth.questions import Question, Verdict

INTERNAL: Final = "rabbit_auth_backend_internal"
HTTP: Final = "rabbit_auth_backend_http"
LDAP: Final = "rabbit_auth_backend_ldap"
OAUTH2: Final = "rabbit_auth_backend_oauth2"
CACHE: Final = "rabbit_auth_backend_cache"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login. Without a password the name is known to be right: a certificate says so."""

    name: str
    password: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Identity:
    """User as a backend knows it; `state` is the backend's own (a decoded token, a DN)."""

    name: str
    tags: tuple[str, ...] = ()
    state: object = field(default=None, repr=False)
    expires_at_ms: int | None = None
    """Wall-clock time at which the login ends by itself."""


class BackendError(Exception):
    """The backend could not decide: it is down, or its answer makes no sense."""


class Backend(Protocol):
    @property
    def name(self) -> str: ...

    async def log_in(self, attempt: Attempt) -> Identity:
        """Return who it is. Raises LoginRefused, or BackendError."""
        ...

    async def authorize(self, attempt: Attempt) -> Identity:
        """Return what this backend knows of a user whom another one has let in.

        Its tags are added to the others'. Raises LoginRefused, or BackendError.
        """
        ...

    def known(self, who: Identity, question: Question) -> Verdict | None:
        """Return the answer if it can be given at once, or None: `ask` for it."""
        ...

    async def ask(self, who: Identity, question: Question) -> Verdict:
        """Return the answer; a backend that is down answers with an error, and raises nothing."""
        ...

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        """Return the identity that follows from a new secret. Raises like `log_in`.

        A backend whose logins never end returns the same identity.
        """
        ...
