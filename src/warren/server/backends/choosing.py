"""Choosing the backends that a configuration names; what cannot work is refused at the start."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from warren.auth.access import AccessControl
from warren.auth.backends import CACHE, HTTP, INTERNAL, LDAP, OAUTH2, Backend
from warren.auth.cache_backend import CacheBackend
from warren.auth.chain import BackendChain, Link
from warren.auth.internal_backend import InternalBackend
from warren.config.auth import INTERNAL_ONLY, BackendChoice
from warren.config.settings import Config
from warren.model.clock import Clock

if TYPE_CHECKING:
    from warren.server.backends.pool import BackendPool
    from warren.server.backends.signing_keys import KeyRing

LDAP_STEPS_MAX: Final = 4
"""Steps of a login, each with its own timeout: look up, connect, bind, and ask."""
POOL_MARGIN_S: Final = 2.0
"""Added to the timeouts of a request, for the thread that it waits for."""


class UnusableBackend(Exception):
    """A backend cannot work as it is configured; the text names the key to change."""


class Backends:
    """Chain of a node, and the threads that its backends have."""

    def __init__(self, chain: BackendChain, pools: list[BackendPool]) -> None:
        self.chain = chain
        self._pools = pools

    def close(self) -> None:
        for pool in self._pools:
            pool.close()


def chain_of(config: Config, access: AccessControl, clock: Clock) -> Backends:
    """Return the chain that the configuration names. Raises UnusableBackend."""
    return _Choosing(config, access, clock).backends()


async def require_usable(config: Config) -> None:
    """Raise UnusableBackend if a node could not start with these backends."""
    from warren.server.clock import LoopClock

    chain_of(config, AccessControl(config.loopback_users), LoopClock()).close()


class _Choosing:
    def __init__(self, config: Config, access: AccessControl, clock: Clock) -> None:
        self._config = config
        self._access = access
        self._clock = clock
        self._pools: list[BackendPool] = []
        self._made: dict[str, Backend] = {}
        self._makers: dict[str, Callable[[], Backend]] = {
            INTERNAL: lambda: InternalBackend(access),
            HTTP: self._http,
            LDAP: self._ldap,
            OAUTH2: self._oauth2,
            CACHE: self._cache,
        }

    def backends(self) -> Backends:
        self._require_page_login()
        choices = self._config.auth_backends or INTERNAL_ONLY
        links = [self._link(choice) for choice in choices]
        return Backends(BackendChain(links, self._access, self._clock), self._pools)

    def _require_page_login(self) -> None:
        page = self._config.page_login
        if not page.is_on:
            return
        for key, value in (
            ("oauth_client_id", page.client_id),
            ("oauth_provider_url", page.provider_url),
        ):
            if not value:
                raise UnusableBackend(
                    f"management.{key}: has to be set beside management.oauth_enabled"
                )
        named = {name for each in self._config.auth_backends for name in (each.authn, *each.authz)}
        cached = self._config.auth_cache.choice
        if OAUTH2 not in named | {cached.authn, *cached.authz}:
            raise UnusableBackend(
                "management.oauth_enabled: needs auth_backends.N = oauth2, which verifies tokens"
            )

    def _link(self, choice: BackendChoice) -> Link:
        authz = tuple(self._backend(name) for name in choice.authz)
        return Link(self._backend(choice.authn), authz)

    def _backend(self, name: str) -> Backend:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def _pool(self, name: str, threads: int, timeout_s: float) -> BackendPool:
        from warren.server.backends.pool import BackendPool

        pool = BackendPool(name, threads, timeout_s)
        self._pools.append(pool)
        return pool

    def _http(self) -> Backend:
        from warren.server.backends.http_backend import HttpBackend
        from warren.server.backends.pool import HTTP_THREADS
        from warren.server.backends.web import WebClient, tls_context

        settings, tls = self._config.auth_http, self._config.auth_http_tls
        connect_s, answer_s = (
            settings.connection_timeout_ms / 1000,
            settings.request_timeout_ms / 1000,
        )
        try:
            context = tls_context(tls, tls.certfile, tls.keyfile)
        except OSError as error:
            raise UnusableBackend(f"auth_http.ssl_options: cannot be used: {error}") from None
        pool = self._pool("auth-http", HTTP_THREADS, connect_s + answer_s + POOL_MARGIN_S)
        return HttpBackend(settings, WebClient(context, connect_s, answer_s), pool)

    def _cache(self) -> Backend:
        settings = self._config.auth_cache
        choice = settings.choice
        if CACHE in (choice.authn, *choice.authz):
            raise UnusableBackend("auth_cache.cached_backend: the cache cannot stand before itself")
        authn = self._backend(choice.authn)
        authz = self._backend(choice.authz[0]) if choice.authz else authn
        return CacheBackend(authn, authz, settings.ttl_ms, settings.keeps_refusals, self._clock)

    def _ldap(self) -> Backend:
        require_library("ldap3", "ldap", "ldap")
        from warren.server.backends.ldap_backend import LdapBackend
        from warren.server.backends.ldap_connection import LdapServers

        settings, tls = self._config.auth_ldap, self._config.auth_ldap_tls
        if not settings.servers:
            raise UnusableBackend("auth_ldap.servers.1: has to be set: no LDAP server is known")
        if settings.use_ssl and settings.use_starttls:
            raise UnusableBackend("auth_ldap.use_starttls: cannot be set beside auth_ldap.use_ssl")
        if settings.dn_lookup_attribute and not settings.dn_lookup_base:
            raise UnusableBackend(
                "auth_ldap.dn_lookup_base: has to be set beside auth_ldap.dn_lookup_attribute"
            )
        for key, path in (("cacertfile", tls.cacertfile), ("certfile", tls.certfile)):
            if path and not Path(path).is_file():
                raise UnusableBackend(f"auth_ldap.ssl_options.{key}: there is no file {path}")
        timeout_s = LDAP_STEPS_MAX * settings.timeout_ms / 1000 + POOL_MARGIN_S
        pool = self._pool("auth-ldap", settings.pool_size, timeout_s)
        return LdapBackend(settings, LdapServers(settings, tls), pool)

    def _oauth2(self) -> Backend:
        require_library("jwt", "oauth2", "oauth2")
        from warren.server.backends.oauth2_backend import Oauth2Backend

        settings = self._config.auth_oauth2
        if not settings.resource_server_id:
            raise UnusableBackend(
                "auth_oauth2.resource_server_id: has to be set, or tokens that were made for "
                "other services would be accepted"
            )
        if not settings.jwks_url and not settings.signing_keys:
            raise UnusableBackend(
                "auth_oauth2.jwks_url: has to be set, or auth_oauth2.signing_keys.ID: without a "
                "key no token can be verified"
            )
        return Oauth2Backend(settings, self._key_ring(), self._clock)

    def _key_ring(self) -> KeyRing:
        from warren.server.backends.pool import KEY_THREADS
        from warren.server.backends.signing_keys import (
            KEY_SERVER_S,
            KeyRing,
            UnusableKey,
            key_of_pem,
        )
        from warren.server.backends.web import WebClient, tls_context

        settings = self._config.auth_oauth2
        try:
            files = {key_id: key_of_pem(path) for key_id, path in settings.signing_keys}
        except UnusableKey as error:
            raise UnusableBackend(f"auth_oauth2.signing_keys: {error}") from None
        if not settings.jwks_url:
            return KeyRing(files, self._clock)
        try:
            context = tls_context(self._config.auth_oauth2_https)
        except OSError as error:
            raise UnusableBackend(f"auth_oauth2.https: cannot be used: {error}") from None
        client = WebClient(context, KEY_SERVER_S, KEY_SERVER_S)
        pool = self._pool("auth-keys", KEY_THREADS, 2 * KEY_SERVER_S + POOL_MARGIN_S)
        return KeyRing(files, self._clock, settings.jwks_url, client, pool)


def require_library(module: str, extra: str, backend: str) -> None:
    """Raise UnusableBackend if the library of a backend is not installed."""
    if find_spec(module) is None:
        raise UnusableBackend(
            f"auth_backends: {backend} needs a library: pip install 'warren[{extra}]'"
        )
