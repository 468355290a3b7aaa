"""Auth settings, with RabbitMQ's keys: the chain of backends, and what each of them needs.

A key of RabbitMQ that is not here is unknown, and a node does not start with it: a setting of a
backend that had no effect would let in somebody whom the operator has locked out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from warren.auth.backends import CACHE, HTTP, INTERNAL, LDAP, OAUTH2
from warren.config.declaring import deep_group, group, in_order, secret, setting
from warren.config.ldap_query import NO_TAGS, TRUE, query_text, tag_queries_text
from warren.config.tls import VERIFY_NONE, VERIFY_PEER
from warren.config.values import PORT_MAX, one_of, switch, text, whole_number

BACKENDS: Final = {
    "internal": INTERNAL, "ldap": LDAP, "http": HTTP, "cache": CACHE, "oauth2": OAUTH2,
}  # fmt: skip
ALGORITHMS: Final = (
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256",
    "PS384", "PS512", "EdDSA",
)  # fmt: skip
TIMEOUT_MS_MAX: Final = 600_000
ANY_TIMEOUT: Final = whole_number(1, TIMEOUT_MS_MAX)


def backend(value: str) -> str:
    """Return the name of a backend's module; a short name and RabbitMQ's module are the same."""
    if value in BACKENDS:
        return BACKENDS[value]
    if value in BACKENDS.values():
        return value
    raise ValueError(f"expected one of {', '.join(BACKENDS)}, got '{value}'")


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """One line of the chain. Without `authz`, `authn` answers for permissions, too."""

    authn: str
    authz: tuple[str, ...] = ()

    def __str__(self) -> str:
        short = {name: word for word, name in BACKENDS.items()}
        if not self.authz:
            return short[self.authn]
        return f"{short[self.authn]} ({', '.join(short[each] for each in self.authz)})"


INTERNAL_ONLY: Final = (BackendChoice(INTERNAL),)


def chained(members: Mapping[str, str]) -> tuple[BackendChoice, ...]:
    """Return the chain in the order of its numbers."""
    lines: dict[int, dict[str, list[str]]] = {}
    for member, value in members.items():
        number, _, rest = member.partition(".")
        kind, _, place = rest.partition(".")
        if (
            not number.isdecimal()
            or kind not in ("", "authn", "authz")
            or (place and kind != "authz")
        ):
            raise ValueError(f"expected auth_backends.1, .1.authn or .1.authz, got .{member}")
        lines.setdefault(int(number), {}).setdefault(kind, []).append(value)
    if not lines:
        raise ValueError("no backend would let anybody in: name one, as auth_backends.1 = internal")
    return tuple(_line(number, lines[number]) for number in sorted(lines))


def _line(number: int, kinds: dict[str, list[str]]) -> BackendChoice:
    if "" in kinds and len(kinds) > 1:
        raise ValueError(f"auth_backends.{number} is set, and .authn or .authz beside it: keep one")
    if "" in kinds:
        return BackendChoice(kinds[""][0])
    # As in RabbitMQ, one of the two stands for both.
    authn = kinds.get("authn") or kinds["authz"][:1]
    return BackendChoice(authn[0], tuple(kinds.get("authz") or authn))


def url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http://HOST/PATH or https://HOST/PATH, got '{value}'")
    return value


def https_url(value: str) -> str:
    if urlsplit(url(value)).scheme != "https":
        raise ValueError("expected an https URL: keys that verify tokens must not be forged")
    return value


def optional(value: str) -> str:
    """A text, or `none`."""
    return "" if value == "none" else text(value)


def timeout(value: str) -> int:
    """Milliseconds. RabbitMQ's `infinity` is the longest wait that there is here."""
    return TIMEOUT_MS_MAX if value == "infinity" else ANY_TIMEOUT(value)


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS towards a server that a backend asks."""

    cacertfile: str = setting(
        "cacertfile", text, "", "PEM file of the CA certificates; those of the system if not set"
    )
    certfile: str = setting("certfile", text, "", "PEM file of the certificate shown to the server")
    keyfile: str = setting("keyfile", text, "", "PEM file of the private key of certfile")
    verify: str = setting(
        "verify", one_of(VERIFY_PEER, VERIFY_NONE), VERIFY_PEER,
        "verify_none: take any certificate of the server, and so any server",
    )  # fmt: skip
    hostname_verification: str = setting(
        "hostname_verification", one_of("wildcard", "none"), "wildcard",
        "none: the certificate may be of another host",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpsToKeys:
    """TLS towards the server of signing keys; RabbitMQ names these keys differently."""

    cacertfile: str = setting(
        "cacertfile", text, "", "PEM file of the CA certificates; those of the system if not set"
    )
    verify: str = setting(
        "peer_verification", one_of(VERIFY_PEER, VERIFY_NONE), VERIFY_PEER,
        "verify_none: take any certificate of the server, and so anybody's keys",
    )  # fmt: skip
    hostname_verification: str = setting(
        "hostname_verification", one_of("wildcard", "none"), "wildcard",
        "none: the certificate may be of another host",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HttpBackend:
    http_method: str = setting(
        "http_method", one_of("get", "post"), "get",
        "method of the requests; get puts passwords into URLs",
    )  # fmt: skip
    user_path: str = setting(
        "user_path", url, "http://localhost:8000/auth/user", "URL that is asked to log a user in"
    )
    vhost_path: str = setting(
        "vhost_path", url, "http://localhost:8000/auth/vhost",
        "URL that is asked for access to a virtual host",
    )  # fmt: skip
    resource_path: str = setting(
        "resource_path", url, "http://localhost:8000/auth/resource",
        "URL that is asked for access to a queue or an exchange",
    )  # fmt: skip
    topic_path: str = setting(
        "topic_path", url, "http://localhost:8000/auth/topic",
        "URL that is asked for access with a routing key",
    )  # fmt: skip
    request_timeout_ms: int = setting(
        "request_timeout", timeout, 15_000, "time limit of a request, in ms"
    )
    connection_timeout_ms: int = setting(
        "connection_timeout", timeout, 15_000, "time limit to connect, in ms"
    )


@dataclass(frozen=True, slots=True)
class CacheBackend:
    authn: str = setting(
        "cached_backend", backend, "", "backend whose answers are kept, for logins and permissions"
    )
    only_authn: str = setting(
        "cached_backend.authn", backend, "", "backend whose answers about logins are kept"
    )
    only_authz: str = setting(
        "cached_backend.authz", backend, "", "backend whose answers about permissions are kept"
    )
    ttl_ms: int = setting(
        "cache_ttl", whole_number(0, 2**31 - 1), 15_000, "time that an answer is kept, in ms"
    )
    keeps_refusals: bool = setting("cache_refusals", switch, False, "keep answers that refuse, too")

    @property
    def choice(self) -> BackendChoice:
        """Backends behind the cache; RabbitMQ's default is the internal one."""
        if self.authn:
            return BackendChoice(self.authn)
        authn = self.only_authn or self.only_authz or INTERNAL
        return BackendChoice(authn, (self.only_authz or authn,))


@dataclass(frozen=True, slots=True)
class LdapBackend:
    servers: tuple[str, ...] = group("servers", text, (), in_order, "LDAP servers, tried in order")
    port: int = setting("port", whole_number(1, PORT_MAX), 389, "port of the LDAP servers")
    timeout_ms: int = setting(
        "timeout", timeout, 10_000, "time limit of each step with an LDAP server, in ms"
    )
    pool_size: int = setting(
        "connection_pool_size", whole_number(1, 64), 8, "most LDAP connections at a time"
    )
    user_bind_pattern: str = setting(
        "user_bind_pattern", optional, "",
        "name to bind with, such as ${username}@example.org; user_dn_pattern if not set",
    )  # fmt: skip
    user_dn_pattern: str = setting(
        "user_dn_pattern", text, "${username}",
        "DN of a user, such as cn=${username},ou=People,dc=example,dc=org",
    )  # fmt: skip
    dn_lookup_attribute: str = setting(
        "dn_lookup_attribute", optional, "", "attribute by which a user's entry is searched"
    )
    dn_lookup_base: str = setting(
        "dn_lookup_base", optional, "", "base of the search for a user's entry"
    )
    dn_lookup_bind: str = setting(
        "dn_lookup_bind", one_of("as_user", "anon"), "as_user", "who searches for a user's entry"
    )
    dn_lookup_user_dn: str = setting(
        "dn_lookup_bind.user_dn", text, "", "DN that searches for a user's entry"
    )
    dn_lookup_password: str = secret(
        "dn_lookup_bind.password", text, "", "password of dn_lookup_bind.user_dn"
    )
    other_bind: str = setting(
        "other_bind", one_of("as_user", "anon"), "as_user", "who asks the queries"
    )
    other_user_dn: str = setting("other_bind.user_dn", text, "", "DN that asks the queries")
    other_password: str = secret("other_bind.password", text, "", "password of other_bind.user_dn")
    group_lookup_base: str = setting(
        "group_lookup_base", optional, "",
        "base of the search of in_group_nested; dn_lookup_base if not set",
    )  # fmt: skip
    use_ssl: bool = setting("use_ssl", switch, False, "speak TLS from the first byte (ldaps)")
    use_starttls: bool = setting("use_starttls", switch, False, "begin TLS with StartTLS")
    vhost_access: str = setting(
        "queries.vhost_access", query_text, TRUE,
        "query, as an Erlang term: may the user open the virtual host (vhost_access_query)",
    )  # fmt: skip
    resource_access: str = setting(
        "queries.resource_access", query_text, TRUE,
        "query: may the user use the queue or exchange (resource_access_query)",
    )  # fmt: skip
    topic_access: str = setting(
        "queries.topic_access", query_text, TRUE,
        "query: may the user use the routing key (topic_access_query)",
    )  # fmt: skip
    tags: str = setting(
        "queries.tags", tag_queries_text, NO_TAGS, "queries: which tags has the user (tag_queries)"
    )


@dataclass(frozen=True, slots=True)
class Oauth2Backend:
    resource_server_id: str = setting(
        "resource_server_id", text, "", "audience and prefix of scopes of tokens for this broker"
    )
    scope_prefix: str | None = setting(
        "scope_prefix", str, None, "prefix of scopes; resource_server_id and a dot if not set"
    )
    additional_scopes_key: str = setting(
        "additional_scopes_key", text, "", "claim with further scopes, beside `scope`"
    )
    preferred_username_claims: tuple[str, ...] = group(
        "preferred_username_claims", text, (), in_order,
        "claims with the user's name, best first, before client_id and sub",
    )  # fmt: skip
    verify_aud: bool = setting(
        "verify_aud", switch, True, "refuse tokens whose audience is not resource_server_id"
    )
    default_key: str = setting("default_key", text, "", "id of the key of tokens that name none")
    signing_keys: tuple[tuple[str, str], ...] = deep_group(
        "signing_keys", text, (), lambda members: tuple(members.items()),
        "PEM files of public keys, by the id that tokens name (kid)",
    )  # fmt: skip
    jwks_url: str = setting("jwks_url", https_url, "", "https URL of the signing keys (JWKS)")
    algorithms: tuple[str, ...] = group(
        "algorithms", one_of(*ALGORITHMS), (), in_order,
        "signature algorithms that are accepted; those of the key's kind if none",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class PageLogin:
    """Sign in to the management page by OpenID Connect."""

    is_on: bool = setting(
        "oauth_enabled", switch, False, "sign in to the page by OpenID Connect, beside passwords"
    )
    client_id: str = setting("oauth_client_id", text, "", "id of the page at the OpenID provider")
    client_secret: str = secret(
        "oauth_client_secret", text, "", "secret of the page at the OpenID provider, if it has one"
    )
    provider_url: str = setting(
        "oauth_provider_url", https_url, "", "URL of the OpenID provider, without /.well-known/..."
    )
    scopes: str = setting(
        "oauth_scopes", text, "openid profile", "scopes that the page asks for, with blanks"
    )


NO_HTTP: Final = HttpBackend()
NO_CACHE: Final = CacheBackend()
NO_LDAP: Final = LdapBackend()
NO_OAUTH2: Final = Oauth2Backend()
NO_PAGE_LOGIN: Final = PageLogin()
CLIENT_TLS: Final = ClientTls()
HTTPS_TO_KEYS: Final = HttpsToKeys()
