"""Keys of Erlang configuration files, translated to those of rabbitmq.conf.

A file is a list of applications with a list of keys each: `[{rabbit, [{heartbeat, 30}]}].` Most
keys have the same name in rabbitmq.conf. The others are in the tables below, with the form of
their values: `{vm_memory_high_watermark, {absolute, "2GB"}}` is
`vm_memory_high_watermark.absolute = 2GB`. So both formats set the same settings, by the same
readers, with the same complaints.

A key of Erlang replaces all that rabbitmq.conf said under it, as RabbitMQ does when advanced.config
is laid over rabbitmq.conf: `{ssl_options, [...]}` leaves no `ssl_options.certfile` of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, NamedTuple, TypeAlias

from warren.config.erlang_names import APPLICATIONS, RABBIT, UNUSED_KEYS
from warren.config.erlang_terms import Atom, ListTerm, Number, Term, Text, TupleTerm, written
from warren.config.line import Line

_EXAMPLE: Final = "[{rabbit, [{heartbeat, 60}]}]."


class _Pair(NamedTuple):
    """A key and its value, in rabbitmq.conf's words, with the term that says so."""

    key: str
    value: str
    term: Term


_Pairs: TypeAlias = Iterator[_Pair]


@dataclass(slots=True)
class Replacement:
    """One key of Erlang: the keys of rabbitmq.conf that it replaces, and their new lines."""

    replaces: tuple[str, ...]
    lines: list[Line] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    """Names without effect here."""


class _Rule(NamedTuple):
    replaces: tuple[str, ...]
    translate: Callable[[Term], _Pairs]


def translate(term: Term, source: str, problems: list[str]) -> Iterator[Replacement]:
    """Yield what each key says; what cannot be translated is added to `problems`."""
    for application, entry in _entries(term, source, problems):
        try:
            yield _replacement(application, entry, source)
        except ValueError as error:
            at = f"{source}:{entry.term.at.line}:{entry.term.at.column}"
            problems.append(f"{at}: {application}.{entry.name}: {error}")


class _Entry(NamedTuple):
    name: str
    value: Term
    term: Term


def _entries(term: Term, source: str, problems: list[str]) -> Iterator[tuple[str, _Entry]]:
    def complain(about: Term, problem: str) -> None:
        problems.append(f"{source}:{about.at.line}:{about.at.column}: {problem}")

    if not isinstance(term, ListTerm):
        complain(term, f"expected a list of applications, as in {_EXAMPLE}")
        return
    for section in term.items:
        match section:
            case TupleTerm(_, (Atom(_, application), ListTerm(_, items))):
                pass
            case _:
                complain(section, "expected {application, [{Key, Value}, ...]}, as in " + _EXAMPLE)
                continue
        if application not in APPLICATIONS:
            complain(section, f"{application}: {_unknown_application(application)}")
            continue
        for item in items:
            match item:
                case TupleTerm(_, (Atom(_, name), value)):
                    yield application, _Entry(name, value, item)
                case Atom(at, name):
                    yield application, _Entry(name, Atom(at, "true"), item)
                case _:
                    complain(item, f"{application}: expected {{key, Value}}, as in {_EXAMPLE}")


def _unknown_application(name: str) -> str:
    near = get_close_matches(name, APPLICATIONS, n=1)
    if near:
        return f"unknown application; did you mean {near[0]}?"
    return "unknown application; settings of the broker stand in {rabbit, [...]}"


def _replacement(application: str, entry: _Entry, source: str) -> Replacement:
    rule = _RULES.get(application, {}).get(entry.name)
    if rule is None and application in _AUTH:
        # What a backend does not know here is refused as an unknown key, never without effect.
        rule = _one(f"{_AUTH[application]}.{entry.name}")
    if rule is None and (application != RABBIT or entry.name in UNUSED_KEYS):
        return Replacement((), pending=[f"{application}.{entry.name}"])
    if rule is None:
        if "." in entry.name:
            raise ValueError("unknown key; keys of rabbitmq.conf stand in rabbitmq.conf")
        rule = _one(entry.name)
    lines = [
        Line(f"{source}:{pair.term.at.line}:{pair.term.at.column}", pair.key, pair.value)
        for pair in rule.translate(entry.value)
    ]
    return Replacement(rule.replaces, lines)


# Values.


def _scalar(term: Term) -> str:
    match term:
        case Atom(_, name):
            return name
        case Text(_, text):
            return text
        case Number(_, _, written):
            return written
        case TupleTerm(_, (Atom(_, "encrypted"), _)):
            raise ValueError("encrypted values cannot be read: write the value itself")
        case TupleTerm():
            raise ValueError("expected one value, got a tuple {...}")
        case ListTerm():
            raise ValueError("expected one value, got a list [...]")


def _items(term: Term) -> tuple[Term, ...]:
    if not isinstance(term, ListTerm):
        raise ValueError(f"expected a list [...], got '{_scalar(term)}'")
    return term.items


def _one(key: str, never: tuple[str, ...] = ()) -> _Rule:
    """One value under the same name. Atoms in `never` mean no limit, which is 0 here."""

    def translate(term: Term) -> _Pairs:
        value = _scalar(term)
        yield _Pair(key, "0" if value in never else value, term)

    return _Rule((key,), translate)


def _members(key: str, show: Callable[[Term], str] = _scalar) -> _Rule:
    """A list whose order counts."""

    def translate(term: Term) -> _Pairs:
        yield _Pair(key, "none", term)
        for number, item in enumerate(_items(term), start=1):
            yield _Pair(f"{key}.{number}", show(item), item)

    return _Rule((key,), translate)


def _switches(key: str) -> _Rule:
    """A list of names."""

    def translate(term: Term) -> _Pairs:
        yield _Pair(key, "none", term)
        for item in _items(term):
            yield _Pair(f"{key}.{_scalar(item)}", "true", item)

    return _Rule((key,), translate)


def _endpoint(term: Term) -> str:
    match term:
        case Number():
            return term.written
        case TupleTerm(_, (Text(_, host), Number(_, _, port))):
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    raise ValueError('expected a port, or {"ADDRESS", PORT}')


def _options(key: str) -> _Rule:
    """A list of `{option, Value}`; a list as a value has members (TLS versions, ciphers)."""

    def translate(term: Term) -> _Pairs:
        for item in _items(term):
            yield from _option(key, item)

    return _Rule((key,), translate)


def _option(key: str, item: Term) -> _Pairs:
    match item:
        case Atom(_, name):
            yield _Pair(f"{key}.{name}", "true", item)
        case TupleTerm(_, (Atom(_, "linger"), TupleTerm(_, (is_on, timeout)))):
            yield _Pair(f"{key}.linger.on", _scalar(is_on), item)
            yield _Pair(f"{key}.linger.timeout", _scalar(timeout), item)
        case TupleTerm(_, (Atom(_, ("cert" | "cacerts" | "key" | "dh") as name), _)):
            # Refused in any form; the values may be secret.
            member = "" if name in ("cert", "dh") else ".1"
            yield _Pair(f"{key}.{name}{member}", "(given)", item)
        case TupleTerm(_, (Atom(_, "ip"), TupleTerm(_, parts))):
            yield _Pair(f"{key}.ip", _address(parts), item)
        case TupleTerm(_, (Atom(_, name), ListTerm(_, values))):
            for number, value in enumerate(values, start=1):
                yield _Pair(f"{key}.{name}.{number}", _scalar(value), value)
        case TupleTerm(_, (Atom(_, name), value)):
            yield _Pair(f"{key}.{name}", _scalar(value), item)
        case _:
            raise ValueError("expected {option, Value} in the list")


def _address(parts: tuple[Term, ...]) -> str:
    """An IP address as Erlang's tuples have it: {127,0,0,1}, or eight numbers."""
    numbers = [part.value for part in parts if isinstance(part, Number)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) != len(parts) or len(parts) not in (4, 8):
        raise ValueError('expected an address such as "127.0.0.1" or {127,0,0,1}')
    if len(whole) == 4:
        return ".".join(map(str, whole))
    return ":".join(f"{number:x}" for number in whole)


def _amount(key: str, relative: str) -> Callable[[Term], _Pairs]:
    """A limit in bytes or as a share of the memory; `relative` names shares written as tuples."""

    def translate(term: Term) -> _Pairs:
        match term:
            case TupleTerm(_, (Atom(_, "absolute"), value)):
                yield _Pair(f"{key}.absolute", _scalar(value), term)
            case TupleTerm(_, (Atom(_, name), value)) if name == relative:
                yield _Pair(f"{key}.relative", _scalar(value), term)
            case _:
                kind = "relative" if key == _WATERMARK else "absolute"
                yield _Pair(f"{key}.{kind}", _scalar(term), term)

    return translate


def _permissions(term: Term) -> _Pairs:
    items = _items(term)
    kinds = ("configure", "write", "read")
    if len(items) != len(kinds):
        raise ValueError('expected [<<"configure">>, <<"write">>, <<"read">>]')
    for kind, item in zip(kinds, items, strict=True):
        yield _Pair(f"default_permissions.{kind}", _scalar(item), item)


def _backends(term: Term) -> _Pairs:
    for number, item in enumerate(_items(term), start=1):
        match item:
            case TupleTerm(_, (authn, authz)):
                yield _Pair(f"auth_backends.{number}.authn", _scalar(authn), item)
                others = authz.items if isinstance(authz, ListTerm) else (authz,)
                for place, each in enumerate(others, start=1):
                    yield _Pair(f"auth_backends.{number}.authz.{place}", _scalar(each), item)
            case _:
                yield _Pair(f"auth_backends.{number}", _scalar(item), item)


def _cached_backend(term: Term) -> _Pairs:
    match term:
        case TupleTerm(_, (authn, authz)):
            yield _Pair("auth_cache.cached_backend.authn", _scalar(authn), term)
            yield _Pair("auth_cache.cached_backend.authz", _scalar(authz), term)
        case _:
            yield _Pair("auth_cache.cached_backend", _scalar(term), term)


def _bind(key: str) -> _Rule:
    """Identity that binds to LDAP: `as_user`, `anon`, or `{DN, Password}`."""

    def translate(term: Term) -> _Pairs:
        match term:
            case TupleTerm(_, (user_dn, password)):
                yield _Pair(f"{key}.user_dn", _scalar(user_dn), term)
                yield _Pair(f"{key}.password", _scalar(password), term)
            case _:
                yield _Pair(key, _scalar(term), term)

    return _Rule((key,), translate)


def _whole(key: str) -> _Rule:
    """A term that is a value of its own, such as a query."""

    def translate(term: Term) -> _Pairs:
        yield _Pair(key, written(term), term)

    return _Rule((key,), translate)


def _key_config(term: Term) -> _Pairs:
    https = ("peer_verification", "cacertfile", "hostname_verification", "depth", "crl_check",
             "fail_if_no_peer_cert")  # fmt: skip
    for name, value in _named(term):
        if name == "algorithms":
            yield from _members("auth_oauth2.algorithms").translate(value)
        else:
            prefix = "auth_oauth2.https" if name in https else "auth_oauth2"
            yield _Pair(f"{prefix}.{name}", _scalar(value), value)


def _partition_handling(term: Term) -> _Pairs:
    key = "cluster_partition_handling"
    match term:
        case TupleTerm(_, (Atom(_, "pause_if_all_down"), ListTerm(_, nodes), Atom(_, recover))):
            yield _Pair(key, "pause_if_all_down", term)
            yield _Pair(f"{key}.pause_if_all_down.recover", recover, term)
            for number, node in enumerate(nodes, start=1):
                yield _Pair(f"{key}.pause_if_all_down.nodes.{number}", _scalar(node), node)
        case _:
            yield _Pair(key, _scalar(term), term)


def _log_levels(term: Term) -> _Pairs:
    """Levels by category, as up to RabbitMQ 3.6."""
    for item in _items(term):
        match item:
            case TupleTerm(_, (Atom(_, category), level)):
                yield _Pair(f"log.{category}.level", _scalar(level), item)
            case _:
                raise ValueError("expected {category, level} in the list")


def _log(term: Term) -> _Pairs:
    """Outputs and categories: `[{console, [{level, info}]}, {categories, [...]}]`."""
    for item in _items(term):
        match item:
            case TupleTerm(_, (Atom(_, "categories"), ListTerm(_, categories))):
                for category in categories:
                    yield from _log_output(category)
            case _:
                yield from _log_output(item)


def _log_output(item: Term) -> _Pairs:
    match item:
        case TupleTerm(_, (Atom(_, name), ListTerm(_, options))):
            for option in options:
                for pair in _option(f"log.{name}", option):
                    key = pair.key.removesuffix(".enabled")
                    yield pair._replace(key="log.file" if key == "log.file.file" else key)
        case _:
            raise ValueError("expected {output, [{option, Value}, ...]} in the list")


def _http_listener(term: Term) -> _Pairs:
    """The listener of the HTTP API as RabbitMQ had it before `tcp_config` and `ssl_config`."""
    named = dict(_named(term))
    is_tls = "ssl" in named and _scalar(named.pop("ssl")) == "true"
    yield from _listener_options("management.ssl" if is_tls else "management.tcp", named.items())


def _named(term: Term) -> Iterator[tuple[str, Term]]:
    for item in _items(term):
        match item:
            case TupleTerm(_, (Atom(_, name), value)):
                yield name, value
            case _:
                raise ValueError("expected {option, Value} in the list")


def _http_part(key: str) -> _Rule:
    """Options of a listener. Those of the HTTP server and of TLS may be lists in the list."""

    def translate(term: Term) -> _Pairs:
        yield from _listener_options(key, _named(term))

    return _Rule((key,), translate)


def _listener_options(key: str, named: Iterable[tuple[str, Term]]) -> _Pairs:
    for name, value in named:
        if name in ("cowboy_opts", "ssl_opts") and isinstance(value, ListTerm):
            for item in value.items:
                yield from _option(key, item)
        else:
            yield from _option(key, TupleTerm(value.at, (Atom(value.at, name), value)))


_WATERMARK: Final = "vm_memory_high_watermark"
_DISK_LIMIT: Final = "disk_free_limit"

_AUTH: Final = {
    "rabbitmq_auth_backend_http": "auth_http",
    "rabbitmq_auth_backend_cache": "auth_cache",
    "rabbitmq_auth_backend_ldap": "auth_ldap",
    "rabbitmq_auth_backend_oauth2": "auth_oauth2",
}
"""Applications of auth backends, and what their keys begin with in rabbitmq.conf."""

_RULES: Final[dict[str, dict[str, _Rule]]] = {
    RABBIT: {
        "tcp_listeners": _members("listeners.tcp", _endpoint),
        "ssl_listeners": _members("listeners.ssl", _endpoint),
        "auth_mechanisms": _members("auth_mechanisms"),
        "loopback_users": _switches("loopback_users"),
        "default_user_tags": _switches("default_user_tags"),
        "tcp_listen_options": _options("tcp_listen_options"),
        "ssl_options": _options("ssl_options"),
        "credential_validator": _options("credential_validator"),
        "auth_backends": _Rule(("auth_backends",), _backends),
        "default_permissions": _Rule(("default_permissions",), _permissions),
        "cluster_partition_handling": _Rule(("cluster_partition_handling",), _partition_handling),
        _WATERMARK: _Rule((_WATERMARK,), _amount(_WATERMARK, "relative")),
        _DISK_LIMIT: _Rule((_DISK_LIMIT,), _amount(_DISK_LIMIT, "mem_relative")),
        "log_levels": _Rule((), _log_levels),
        "log": _Rule(("log",), _log),
        "connection_max": _one("connection_max", ("infinity",)),
        "consumer_timeout": _one("consumer_timeout", ("infinity", "undefined")),
        "num_tcp_acceptors": _one("num_acceptors.tcp"),
        "num_ssl_acceptors": _one("num_acceptors.ssl"),
        "classic_queue_default_version": _one("classic_queue.default_version"),
        "log_root": _one("log.dir"),
        "product_name": _one("product.name"),
        "product_version": _one("product.version"),
    },
    "kernel": {"net_ticktime": _one("net_ticktime")},
    "rabbitmq_management": {
        "listener": _Rule(("management.tcp", "management.ssl"), _http_listener),
        "tcp_config": _http_part("management.tcp"),
        "ssl_config": _http_part("management.ssl"),
        "load_definitions": _one("load_definitions"),
        **{
            name: _one(f"management.{name}")
            for name in (
                "oauth_enabled",
                "oauth_client_id",
                "oauth_client_secret",
                "oauth_provider_url",
                "oauth_scopes",
            )
        },
    },
    "rabbitmq_auth_backend_http": {"ssl_options": _options("auth_http.ssl_options")},
    "rabbitmq_auth_backend_cache": {
        "cached_backend": _Rule(("auth_cache.cached_backend",), _cached_backend),
    },
    "rabbitmq_auth_backend_ldap": {
        "servers": _members("auth_ldap.servers"),
        "pool_size": _one("auth_ldap.connection_pool_size"),
        "dn_lookup_bind": _bind("auth_ldap.dn_lookup_bind"),
        "other_bind": _bind("auth_ldap.other_bind"),
        "ssl_options": _options("auth_ldap.ssl_options"),
        "vhost_access_query": _whole("auth_ldap.queries.vhost_access"),
        "resource_access_query": _whole("auth_ldap.queries.resource_access"),
        "topic_access_query": _whole("auth_ldap.queries.topic_access"),
        "tag_queries": _whole("auth_ldap.queries.tags"),
    },
    "rabbitmq_auth_backend_oauth2": {
        "extra_scopes_source": _one("auth_oauth2.additional_scopes_key"),
        "preferred_username_claims": _members("auth_oauth2.preferred_username_claims"),
        "key_config": _Rule(("auth_oauth2.jwks_url", "auth_oauth2.https"), _key_config),
    },
    "rabbitmq_prometheus": {"tcp_config": _http_part("prometheus.tcp")},
}
"""How values look that are more than one word, or stand under another name, by application."""
