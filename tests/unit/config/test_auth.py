"""Settings of auth backends: the chain, its order, and the files that name them."""

from __future__ import annotations

import pytest

from warren.auth.backends import CACHE, HTTP, INTERNAL, LDAP, OAUTH2
from warren.config.auth import BackendChoice
from warren.config.file import ConfigError, parse_config
from warren.config.ldap_query import (
    All,
    Attribute,
    Constant,
    Equals,
    For,
    InGroup,
    InNestedGroup,
    Match,
    Not,
    StringPattern,
    read_query,
    read_tag_queries,
)


def chain(text: str, source: str = "test.conf") -> tuple[BackendChoice, ...]:
    return parse_config(text, source).config().auth_backends


def test_the_chain_is_in_the_order_of_its_numbers() -> None:
    text = "auth_backends.10 = internal\nauth_backends.2 = http\nauth_backends.1 = ldap"
    assert [choice.authn for choice in chain(text)] == [LDAP, HTTP, INTERNAL]


def test_one_backend_may_know_passwords_and_another_permissions() -> None:
    text = "auth_backends.1.authn = ldap\nauth_backends.1.authz = internal"
    assert chain(text) == (BackendChoice(LDAP, (INTERNAL,)),)


@pytest.mark.parametrize("line", ["auth_backends.1.authn = ldap", "auth_backends.1.authz = ldap"])
def test_one_of_the_two_stands_for_both(line: str) -> None:
    assert chain(line) == (BackendChoice(LDAP, (LDAP,)),)


def test_nothing_is_the_internal_backend() -> None:
    assert chain("heartbeat = 10") == (BackendChoice(INTERNAL),)


def test_erlang_terms_name_the_same_chain() -> None:
    text = (
        "[{rabbit, [{auth_backends, [rabbit_auth_backend_oauth2, rabbit_auth_backend_cache,"
        " {rabbit_auth_backend_ldap, [rabbit_auth_backend_internal,"
        " rabbit_auth_backend_http]}]}]}]."
    )
    assert chain(text, "advanced.config") == (
        BackendChoice(OAUTH2), BackendChoice(CACHE), BackendChoice(LDAP, (INTERNAL, HTTP)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("auth_backends = none", "no backend would let anybody in"),
        ("auth_backends.first = internal", "expected auth_backends.1"),
        ("auth_backends.1.authx = internal", "expected auth_backends.1"),
        ("auth_backends.1 = internal\nauth_backends.1.authn = ldap", "keep one"),
    ],
)
def test_a_chain_that_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        chain(text)


def test_ldap_settings_of_advanced_config_are_those_of_rabbitmq_conf() -> None:
    config = parse_config(
        """[{rabbitmq_auth_backend_ldap, [
            {servers, ["one.example.org", "two.example.org"]},
            {dn_lookup_bind, {"cn=reader,dc=x", "secret"}},
            {vhost_access_query, {'and', [{in_group, "cn=${vhost},dc=x"},
                                          {'not', {exists, "ou=${username},dc=x"}}]}},
            {tag_queries, [{administrator, {constant, true}}, {management, {string, "x"}}]},
            {pool_size, 3}]}].""",
        "advanced.config",
    ).config()
    ldap = config.auth_ldap
    assert ldap.servers == ("one.example.org", "two.example.org")
    assert (ldap.dn_lookup_user_dn, ldap.dn_lookup_password) == ("cn=reader,dc=x", "secret")
    assert ldap.pool_size == 3
    query = read_query(ldap.vhost_access)
    assert isinstance(query, All)
    assert query.queries[0] == InGroup("cn=${vhost},dc=x", "member")
    assert read_tag_queries(ldap.tags)[0] == ("administrator", Constant(True))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("{constant, false}", Constant(False)),
        ('{in_group_nested, "cn=g", "uniqueMember", onelevel}',
         InNestedGroup("cn=g", "uniqueMember", "one")),
        ('{for, [{permission, configure, {constant, true}}, {name, "x", "y"}]}',
         For((("permission", "configure", Constant(True)), ("name", "x", StringPattern("y"))))),
        ('{equals, "${vhost}", {attribute, "${user_dn}", "l"}}',
         Equals(StringPattern("${vhost}"), Attribute("${user_dn}", "l"))),
        ('{match, {string, "a"}, "^b"}', Match(StringPattern("a"), StringPattern("^b"))),
        ('{\'not\', "x"}', Not(StringPattern("x"))),
    ],
)  # fmt: skip
def test_queries_are_read_as_rabbitmq_writes_them(text: str, query: object) -> None:
    assert read_query(text) == query


def test_the_cache_says_what_it_stands_before() -> None:
    cached = parse_config("auth_cache.cached_backend = ldap", "test.conf").config().auth_cache
    assert cached.choice == BackendChoice(LDAP)
    both = parse_config(
        "auth_cache.cached_backend.authn = http\nauth_cache.cached_backend.authz = internal",
        "test.conf",
    ).config()
    assert both.auth_cache.choice == BackendChoice(HTTP, (INTERNAL,))
    assert (both.auth_cache.ttl_ms, both.auth_cache.keeps_refusals) == (15_000, False)
