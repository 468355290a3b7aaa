"""Access decisions, in RabbitMQ's order and words.

Decisions are remembered until anything about access changes; `generation` tells callers that keep
some of their own when to drop them. RabbitMQ lets a busy channel go on with a revoked permission;
here it ends with the transaction that revokes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from warren.auth.directory import Directory
from warren.auth.passwords import verify
from warren.auth.permissions import Access, ResourceKind, TopicAccess, permits_topic
from warren.auth.questions import Question
from warren.auth.users import (
    MAX_CHANNELS,
    MAX_CONNECTIONS,
    MAX_QUEUES,
    User,
    effective_limit,
)
from warren.metadata.store import Change
from warren.model.errors import (
    LoginRefused,
    access_refused,
    not_allowed,
    precondition_failed,
)
from warren.model.records import describe_exchange

DECISIONS_MAX: Final = 16_384
LOOPBACK_USERS: Final = frozenset({"guest"})

# The default exchange has no name of its own that a pattern could match.
DEFAULT_EXCHANGE: Final = "amq.default"

# Tells of logins, connections and queues of all virtual hosts, and is always there. In RabbitMQ it
# comes with a plug-in, and is open to whoever may read from it.
_EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
_TAGS_FOR_EVENTS: Final = frozenset({"monitoring", "administrator"})

_BLANK_PASSWORD: Final = (
    "user '{}' attempted to log in with a blank password, which is prohibited by the internal "
    "authN backend. To use TLS/x509 certificate-based authentication, see the "
    "rabbitmq_auth_mechanism_ssl plugin and configure the client to use the EXTERNAL "
    "authentication mechanism. Alternatively change the password for the user to be non-blank."
)


class AccessControl:
    """Asked by connections and channels; `apply` is to be called with every metadata change."""

    def __init__(self, loopback_users: Iterable[str] = LOOPBACK_USERS) -> None:
        self.directory = Directory()
        self.generation = 0
        self._loopback_users = frozenset(loopback_users)
        self._decisions: dict[tuple[str, str, ResourceKind, str, Access], bool] = {}

    def apply(self, changes: Sequence[Change]) -> None:
        is_affected = True
        try:
            is_affected = self.directory.apply(changes)
        finally:
            if is_affected:
                self.generation += 1
                self._decisions.clear()

    # Logging in.

    def authenticate(self, name: str, password: bytes | None, peer_is_loopback: bool) -> User:
        """Return an internal user. Without a password `name` is proved by a certificate."""
        if password == b"":
            raise LoginRefused(_BLANK_PASSWORD.format(name))
        user = self.directory.user(name)
        if user is None or not (password is None or _is_of(user, password)):
            raise LoginRefused(f"user '{name}' - invalid credentials")
        self.require_place(name, peer_is_loopback)
        return user

    def require_place(self, name: str, peer_is_loopback: bool) -> None:
        """Raise LoginRefused for a user that may connect from this machine only."""
        if not peer_is_loopback and self.is_loopback_only(name):
            raise LoginRefused(f"user '{name}' can only connect via localhost")

    def is_loopback_only(self, name: str) -> bool:
        return name in self._loopback_users

    def require_room_for_connection(
        self, user: User, vhost: str, connections_of_vhost: int, connections_of_user: int
    ) -> None:
        """The first two steps of connection.open, given how many connections there are already."""
        self._require_vhost_exists(vhost)
        limit = self.vhost_connections_max(vhost)
        if limit is not None and connections_of_vhost >= limit:
            raise not_allowed(
                f"access to vhost '{vhost}' refused for user '{user.name}': "
                f"connection limit ({limit}) is reached"
            )
        limit = self.user_connections_max(user.name)
        if limit is not None and connections_of_user >= limit:
            raise not_allowed(
                f"connection refused for user '{user.name}': "
                f"user connection limit ({limit}) is reached"
            )

    def require_vhost(self, user: User, vhost: str, peer: str = "") -> None:
        """Raise HardError 530, or AnswerPending; `peer` is the client's address."""
        self._require_vhost_exists(vhost)
        refusal = f"access to vhost '{vhost}' refused for user '{user.name}'"
        if user.authorization is not None:
            verdict = user.authorization.verdict(Question("vhost", vhost, peer=peer))
            if not verdict.is_permitted:
                raise not_allowed(refusal + verdict.explanation)
        elif self.directory.permission(user.name, vhost) is None:
            raise not_allowed(refusal)

    def may_enter(self, user: User, vhost: str, peer: str = "") -> bool:
        """True if the user could open a connection to the virtual host."""
        if user.authorization is None:
            return self.directory.permission(user.name, vhost) is not None
        return user.authorization.verdict(Question("vhost", vhost, peer=peer)).is_permitted

    def require_room_for_channel(self, user: User, channels_of_user: int) -> None:
        limit = self.user_channels_max(user.name)
        if limit is not None and channels_of_user >= limit:
            raise not_allowed(
                f"number of channels opened for user '{user.name}' has reached "
                f"the maximum allowed user limit of ({limit})"
            )

    # Working.

    def require(
        self, user: User, vhost: str, resource: ResourceKind, name: str, permission: Access
    ) -> None:
        if not name and resource == "exchange":
            name = DEFAULT_EXCHANGE
        explanation = ""
        if user.authorization is not None:
            question = Question(resource, vhost, name, permission)
            verdict = user.authorization.verdict(question)
            is_permitted, explanation = verdict.is_permitted, verdict.explanation
        else:
            is_permitted = self._is_permitted((user.name, vhost, resource, name, permission))
        if name == _EVENT_EXCHANGE and permission == "read":
            is_permitted = is_permitted and not _TAGS_FOR_EVENTS.isdisjoint(user.tags)
        if not is_permitted:
            raise access_refused(
                f"access to {resource} '{name}' in vhost '{vhost}' refused for user "
                f"'{user.name}'{explanation}"
            )

    def require_topic(  # noqa: PLR0913 - a topic has this many coordinates
        self,
        user: User,
        vhost: str,
        exchange: str,
        permission: TopicAccess,
        routing_key: str,
        *,
        client_id: str = "",
    ) -> None:
        """For topic exchanges only; without a row everything is permitted."""
        if user.authorization is not None:
            question = Question("topic", vhost, exchange, permission, routing_key)
            verdict = user.authorization.verdict(question)
            if not verdict.is_permitted:
                raise access_refused(
                    f"access to topic '{routing_key}' in {describe_exchange(exchange, vhost)} "
                    f"refused for user '{user.name}'{verdict.explanation}"
                )
            return
        row = self.directory.topic_permission(user.name, vhost, exchange)
        if row is not None and not permits_topic(row, permission, routing_key, client_id):
            raise access_refused(
                f"access to topic '{routing_key}' in {describe_exchange(exchange, vhost)} "
                f"refused for user '{user.name}'"
            )

    def require_user_id(self, user: User, user_id: str) -> None:
        """A message's user-id property, if it has one, is the name of who publishes it."""
        if user_id != user.name and not user.may_impersonate:
            raise precondition_failed(
                f"user_id property set to '{user_id}' but authenticated user was '{user.name}'"
            )

    def require_room_for_queue(self, vhost: str, name: str, queues_of_vhost: int) -> None:
        limit = self.vhost_queues_max(vhost)
        if limit is not None and queues_of_vhost >= limit:
            raise precondition_failed(
                f"cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) "
                "is reached"
            )

    # Limits in force; None means that there is none.

    def user_connections_max(self, name: str) -> int | None:
        return effective_limit(self.directory.user_limits(name), MAX_CONNECTIONS)

    def user_channels_max(self, name: str) -> int | None:
        return effective_limit(self.directory.user_limits(name), MAX_CHANNELS)

    def vhost_connections_max(self, name: str) -> int | None:
        return effective_limit(self.directory.vhost_limits(name), MAX_CONNECTIONS)

    def vhost_queues_max(self, name: str) -> int | None:
        return effective_limit(self.directory.vhost_limits(name), MAX_QUEUES)

    def _require_vhost_exists(self, vhost: str) -> None:
        if not self.directory.has_vhost(vhost):
            raise not_allowed(f"vhost {vhost} not found")

    def _is_permitted(self, question: tuple[str, str, ResourceKind, str, Access]) -> bool:
        known = self._decisions.get(question)
        if known is not None:
            return known
        user, vhost, _, name, access = question
        permission = self.directory.permission(user, vhost)
        decision = permission is not None and permission.permits(access, name)
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.pop(next(iter(self._decisions)))
        self._decisions[question] = decision
        return decision


def _is_of(user: User, password: bytes) -> bool:
    return verify(password, user.password_hash, user.hashing_algorithm)
