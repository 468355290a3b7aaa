"""Who comes in: virtual hosts, and how many connections and channels each user may have.

RabbitMQ counts a connection from the moment its virtual host is open to the end of its socket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from warren.auth.backends import Attempt
from warren.auth.chain import BackendChain
from warren.auth.login_guard import LoginGuard
from warren.auth.questions import AnswerPending
from warren.auth.users import User
from warren.broker.activity import Activity
from warren.cluster.tallies import Counts, Scope
from warren.model.errors import LoginRefused
from warren.model.logs import EventLog
from warren.protocol.handshake import Handshake, HandshakeSettings
from warren.protocol.sasl import Credentials
from warren.server.sockets import is_loopback

AMQP: Final = "amqp091"

_log = EventLog("connection")


@dataclass(frozen=True, slots=True)
class Login:
    """`refusal` says why it was refused; empty if it was not."""

    mechanism: str
    user: str
    refusal: str = ""


class _Outcome:
    """Outcome of a login that backends have to be asked about: known to the second look."""

    def __init__(self) -> None:
        self._user: User | None = None
        self._refusal: LoginRefused | None = None

    def given_by(self, log_in: Callable[[], Awaitable[User]]) -> User:
        if self._refusal is not None:
            raise self._refusal
        if self._user is None:
            raise AnswerPending(lambda: self._settle(log_in))
        return self._user

    async def _settle(self, log_in: Callable[[], Awaitable[User]]) -> None:
        try:
            self._user = await log_in()
        except LoginRefused as refusal:
            self._refusal = refusal
        except Exception as error:  # noqa: BLE001 - a fault of ours must not let anybody in
            _log.exception("login failed with an internal error", error)
            self._refusal = LoginRefused("authentication failed with internal error")


class Admission:
    """What `enter` and `open_channel` count, `leave` and `close_channel` give back."""

    def __init__(self, chain: BackendChain, activity: Activity, guard: LoginGuard) -> None:
        self._chain = chain
        self._access = chain.access
        self._guard = guard
        self._activity = activity
        self.counts: Counts = Counter()
        self._elsewhere: Callable[[Scope, str], int] | None = None
        self._on_change: Callable[[Scope, str], None] | None = None

    def count_elsewhere(
        self, elsewhere: Callable[[Scope, str], int], on_change: Callable[[Scope, str], None]
    ) -> None:
        """Count what other nodes of the cluster have, too; `on_change` tells them our counts."""
        self._elsewhere, self._on_change = elsewhere, on_change

    def handshake(
        self, settings: HandshakeSettings, peer_host: str, tell: Callable[[Login], None]
    ) -> Handshake[User]:
        """The negotiation with a client that has just come; `tell` hears of its login.

        Its steps raise AnswerPending where a backend has to be asked first.
        """
        outcome = _Outcome()

        def authenticate(mechanism: str, credentials: Credentials) -> User:
            try:
                if self._chain.is_internal_only:
                    user = self.authenticate(credentials, peer_host)
                else:
                    user = outcome.given_by(lambda: self.log_in(credentials, peer_host))
            except LoginRefused as refusal:
                tell(Login(mechanism, credentials.username, str(refusal)))
                raise
            tell(Login(mechanism, user.name))
            return user

        return Handshake(
            settings, authenticate, lambda user, vhost: self.open_vhost(user, vhost, peer_host)
        )

    def authenticate(self, credentials: Credentials, peer_host: str) -> User:
        """Log an internal user in. Raises LoginRefused."""
        is_success = False
        try:
            user = self._authenticate(credentials, peer_host)
            is_success = True
        finally:
            self._activity.attempted(AMQP, is_success)
        return user

    def _authenticate(self, credentials: Credentials, peer_host: str) -> User:
        name, password = credentials
        self._guard.require_room(peer_host, name)
        try:
            user = self._access.authenticate(name, password, is_loopback(peer_host))
        except LoginRefused:
            self._guard.failed(peer_host, name)
            raise
        self._guard.succeeded(peer_host, name)
        return user

    async def log_in(self, credentials: Credentials, peer_host: str) -> User:
        """Log a user in through the chain of backends. Raises LoginRefused."""
        name, password = credentials
        is_success = False
        try:
            self._guard.require_room(peer_host, name)
            try:
                user = await self._chain.log_in(Attempt(name, password))
                self._access.require_place(user.name, is_loopback(peer_host))
            except LoginRefused:
                self._guard.failed(peer_host, name)
                raise
            self._guard.succeeded(peer_host, name)
            is_success = True
        finally:
            self._activity.attempted(AMQP, is_success)
        return user

    def open_vhost(self, user: User, vhost: str, peer_host: str = "") -> None:
        """Raises HardError 530, limits before permissions, or AnswerPending."""
        of_vhost = self._count(Scope.VHOST_CONNECTIONS, vhost)
        of_user = self._count(Scope.USER_CONNECTIONS, user.name)
        self._access.require_room_for_connection(user, vhost, of_vhost, of_user)
        self._access.require_vhost(user, vhost, peer_host)

    def enter(self, user: User, vhost: str) -> None:
        self._add(Scope.VHOST_CONNECTIONS, vhost, 1)
        self._add(Scope.USER_CONNECTIONS, user.name, 1)

    def leave(self, user: User, vhost: str) -> None:
        self._add(Scope.VHOST_CONNECTIONS, vhost, -1)
        self._add(Scope.USER_CONNECTIONS, user.name, -1)

    def open_channel(self, user: User) -> None:
        """Raises HardError 530 if the user has too many channels; else counts one more."""
        self._access.require_room_for_channel(user, self._count(Scope.USER_CHANNELS, user.name))
        self._add(Scope.USER_CHANNELS, user.name, 1)

    def close_channel(self, user: User) -> None:
        self._add(Scope.USER_CHANNELS, user.name, -1)

    def _count(self, scope: Scope, name: str) -> int:
        here = self.counts[scope.value, name]
        return here if self._elsewhere is None else here + self._elsewhere(scope, name)

    def _add(self, scope: Scope, name: str, number: int) -> None:
        key = scope.value, name
        self.counts[key] += number
        assert self.counts[key] >= 0, f"{key} left more often than it entered"
        if not self.counts[key]:
            del self.counts[key]
        if self._on_change is not None:
            self._on_change(scope, name)
