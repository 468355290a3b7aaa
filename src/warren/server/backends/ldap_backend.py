"""LDAP backend: a user is who can bind to the directory, and queries say what the user may do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from warren.auth.backends import LDAP, Attempt, BackendError, Identity
from warren.auth.questions import PERMITTED, REFUSED, Question, Verdict
from warren.config.auth import LdapBackend as LdapSettings
from warren.config.ldap_query import Query, read_query, read_tag_queries
from warren.model.errors import LoginRefused
from warren.model.logs import EventLog
from warren.server.backends.ldap_connection import LdapReader, LdapServers
from warren.server.backends.ldap_evaluation import Evaluation, filled, names_of, variables_of
from warren.server.backends.pool import BackendPool

T = TypeVar("T")

_AS_USER = "as_user"

_log = EventLog("access")


@dataclass(frozen=True, slots=True)
class LdapState:
    """DN of a user, and its password where queries are asked as the user."""

    dn: str
    password: str | None = field(default=None, repr=False)


class LdapBackend:
    name = LDAP

    def __init__(self, settings: LdapSettings, servers: LdapServers, pool: BackendPool) -> None:
        self._settings = settings
        self._servers = servers
        self._pool = pool
        self._tags = read_tag_queries(settings.tags)
        self._queries: dict[str, Query] = {
            "vhost": read_query(settings.vhost_access),
            "topic": read_query(settings.topic_access),
        }
        self._resource_access = read_query(settings.resource_access)

    async def log_in(self, attempt: Attempt) -> Identity:
        # Without a name or a password, a directory binds anybody, as nobody.
        if attempt.password == b"" or not attempt.name:
            raise LoginRefused(f"user '{attempt.name}' - unauthenticated bind not allowed")
        password = None if attempt.password is None else attempt.password.decode(errors="replace")
        try:
            return await self._pool.run(lambda: self._log_in(attempt.name, password))
        except LoginRefused:
            raise LoginRefused(f"user '{attempt.name}' - invalid credentials") from None

    async def authorize(self, attempt: Attempt) -> Identity:
        return await self.log_in(attempt)

    def known(self, who: Identity, question: Question) -> Verdict | None:
        return None

    async def ask(self, who: Identity, question: Question) -> Verdict:
        query = self._queries.get(question.subject, self._resource_access)
        try:
            is_permitted = await self._pool.run(lambda: self._is_true(who, question, query))
        except BackendError as error:
            return Verdict(False, str(error))
        except LoginRefused:
            return Verdict(False, "the directory does not accept who asks the queries any more")
        return PERMITTED if is_permitted else REFUSED

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        return who

    # In a thread.

    def _log_in(self, name: str, password: str | None) -> Identity:
        settings = self._settings
        looks_before = bool(settings.dn_lookup_attribute) and not self._is_looked_up_as_user
        if password is None:
            dn = self._looked_up_before(name) if looks_before else self._filled_dn(name)
            return self._identity(name, LdapState(dn), None)
        if looks_before:
            dn = self._looked_up_before(name)
            with self._servers.bound(dn, password) as reader:
                return self._identity(name, LdapState(dn, password), reader)
        with self._servers.bound(self._bind_name(name), password) as reader:
            dn = self._filled_dn(name)
            if settings.dn_lookup_attribute:
                dn = self._looked_up(name, reader)
            return self._identity(name, LdapState(dn, password), reader)

    @property
    def _is_looked_up_as_user(self) -> bool:
        settings = self._settings
        return not settings.dn_lookup_user_dn and settings.dn_lookup_bind == _AS_USER

    def _bind_name(self, name: str) -> str:
        pattern = self._settings.user_bind_pattern
        return filled(pattern, names_of(name), _escaped) if pattern else self._filled_dn(name)

    def _filled_dn(self, name: str) -> str:
        return filled(self._settings.user_dn_pattern, names_of(name), _escaped)

    def _looked_up_before(self, name: str) -> str:
        settings = self._settings
        with self._bound_for_service(
            settings.dn_lookup_user_dn, settings.dn_lookup_password, "dn_lookup_bind"
        ) as reader:
            return self._looked_up(name, reader)

    def _bound_for_service(
        self, dn: str, password: str, key: str
    ) -> AbstractContextManager[LdapReader]:
        if not dn:
            return self._servers.bound()
        return _ServiceBind(self._servers.bound(dn, password), key)

    def _looked_up(self, name: str, reader: LdapReader) -> str:
        settings = self._settings
        value = filled(settings.user_dn_pattern, names_of(name))
        found = reader.dns_with(settings.dn_lookup_base, settings.dn_lookup_attribute, value)
        if len(found) != 1:
            _log.warning("LDAP lookup did not find one entry", user=name, found=len(found))
            return value
        return found[0]

    def _identity(self, name: str, state: LdapState, reader: LdapReader | None) -> Identity:
        """Return the user with its tags; `reader` is bound as the user."""

        def with_tags(reading: LdapReader) -> Identity:
            evaluation = self._evaluation(reading, name, state.dn, None)
            tags = tuple(tag for tag, query in self._tags if evaluation.is_true(query))
            return Identity(name, tags, state)

        if reader is not None and self._asks_as_user:
            return with_tags(reader)
        return self._asked(state, with_tags)

    @property
    def _asks_as_user(self) -> bool:
        settings = self._settings
        return not settings.other_user_dn and settings.other_bind == _AS_USER

    def _asked(self, state: LdapState, question: Callable[[LdapReader], T]) -> T:
        """Ask as the configuration says: as the user, as somebody else, or as nobody."""
        settings = self._settings
        if self._asks_as_user:
            if state.password is None:
                raise BackendError("'other_bind' set to 'as_user' but no password supplied")
            with self._servers.bound(state.dn, state.password) as reader:
                return question(reader)
        with self._bound_for_service(
            settings.other_user_dn, settings.other_password, "other_bind"
        ) as reader:
            return question(reader)

    def _is_true(self, who: Identity, question: Question, query: Query) -> bool:
        state = who.state
        assert isinstance(state, LdapState), "identities of this backend have a DN"

        def is_true(reader: LdapReader) -> bool:
            return self._evaluation(reader, who.name, state.dn, question).is_true(query)

        return self._asked(state, is_true)

    def _evaluation(
        self, reader: LdapReader, name: str, dn: str, question: Question | None
    ) -> Evaluation:
        base = self._settings.group_lookup_base or self._settings.dn_lookup_base
        return Evaluation(reader, variables_of(name, dn, question), base)


class _ServiceBind(AbstractContextManager[LdapReader]):
    """A bind that is no login: if it is refused, the configuration is wrong, not the user."""

    def __init__(self, bound: AbstractContextManager[LdapReader], key: str) -> None:
        self._bound = bound
        self._key = key

    def __enter__(self) -> LdapReader:
        try:
            return self._bound.__enter__()
        except LoginRefused:
            raise BackendError(f"auth_ldap.{self._key}: the directory refuses it") from None

    def __exit__(self, *failure: object) -> None:
        self._bound.__exit__(None, None, None)


def _escaped(text: str) -> str:
    from ldap3.utils.dn import escape_rdn

    return str(escape_rdn(text))
