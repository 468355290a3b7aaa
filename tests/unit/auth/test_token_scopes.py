"""Scopes of tokens: what their patterns match, and where they are found."""

from __future__ import annotations

import pytest

from warren.auth.questions import Question
from warren.auth.token_scopes import (
    audiences_of,
    matches,
    permissions_of,
    scopes_of,
    tags_of,
    without_prefix,
)


@pytest.mark.parametrize(
    ("subject", "pattern", "is_match"),
    [
        ("/", "%2F", True),
        ("/", "*", True),
        ("", "*", True),
        ("abc", "a*c", True),
        ("ac", "a*c", True),
        ("abcd", "a*c", False),
        ("abcbc", "a*bc", True),
        ("aa", "a*aa", False),
        ("a*c", "a%2Ac", True),
        ("abc", "a%2Ac", False),
        ("a b", "a+b", True),
        ("abc", "abc*", True),
        ("abc", "", False),
        ("a.b.c.d", "a*b*d", True),
        ("adcb", "a*b*d", False),
    ],
)
def test_patterns_have_stars_and_percent_signs(subject: str, pattern: str, is_match: bool) -> None:
    assert matches(subject, pattern) is is_match


def test_a_permission_is_of_a_vhost_a_name_and_perhaps_a_routing_key() -> None:
    read, write, *others = permissions_of(
        ["read:v/q*", "write:v/x/a.*", "read:v", "read:a/b/c/d", "erase:v/q", "tag:monitoring"]
    )
    assert others == []
    assert read.permits(Question("vhost", "v"))
    assert not read.permits(Question("vhost", "w"))
    assert read.permits(Question("queue", "v", "q1", "read"))
    assert not read.permits(Question("queue", "v", "q1", "write"))
    assert not read.permits(Question("topic", "v", "q1", "read", "key"))
    assert write.permits(Question("topic", "v", "x", "write", "a.b"))
    assert not write.permits(Question("topic", "v", "x", "write", "b.b"))
    assert write.permits(Question("exchange", "v", "x", "write"))


def test_tags_are_scopes() -> None:
    assert tags_of(["tag:monitoring", "read:*/*", "tag:administrator"]) == (
        "administrator", "monitoring",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "r.a r.b"}, ["r.a", "r.b"]),
        ({"scope": ["r.a", 7]}, ["r.a"]),
        ({"scope": "r.a", "extra": "r.c r.d"}, ["r.c", "r.d", "r.a"]),
        ({"extra": {"r": ["c"], "other": ["d"]}}, ["r.c"]),
        ({"extra": {"r": "c d"}}, ["r.c", "r.d"]),
        ({"authorization": {"permissions": [{"scopes": ["r.k"]}, "x", {"rsid": "1"}]}}, ["r.k"]),
        ({"scope": None, "authorization": 3}, []),
    ],
)
def test_scopes_are_where_issuers_put_them(claims: dict[str, object], scopes: list[str]) -> None:
    assert scopes_of(claims, "r", "extra") == scopes


def test_only_scopes_of_this_broker_count() -> None:
    assert without_prefix(["r.read:a/b", "other.read:a/b", "read:a/b"], "r.") == ["read:a/b"]
    assert audiences_of({"aud": "r s"}) == ["r", "s"]
