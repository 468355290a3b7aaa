"""Patterns mean what they mean to RabbitMQ 3.10.8, which was asked each of these."""

from __future__ import annotations

import pytest

from warren.auth.patterns import InvalidPattern, Pattern


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (".*", "anything"),
        ("b", "abc"),
        ("^a$", "a"),
        ("^[é]+$", "é"),
        ("^..$", "é"),
        ("[[:alpha:]]", "-x-"),
        ("^[[:digit:]_]+$", "1_2"),
        ("(?i)^ABC$", "abc"),
        ("(?<n>a)b", "ab"),
        ("(?P<n>x)", "x"),
        ("(?<=a)b", "ab"),
        (r"a\z", "a"),
        (r"a\Z", "a"),
        (r"\h", "\t"),
        ("a++b", "aab"),
        ("(?#comment)a", "a"),
        (r"(a)|b\1", "a"),
        (r"\Qa.b\E", "a.b"),
        (r"^\Qa.b\E\d$", "a.b1"),
        (r"^\\Q$", r"\Q"),
        ("[[]", "["),
        ("[]]", "]"),
        (r"[\]z]", "z"),
        ("x*", ""),
    ],
)
def test_it_permits(pattern: str, name: str) -> None:
    assert Pattern(pattern).permits(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("", "a"),
        ("^$", "a"),
        ("^.$", "é"),
        (r"^\w$", "é"),
        ("^a", "ba"),
        ("[[:alpha:]]", "123"),
        ("[[:alpha:]]", "[:]"),
        (r"\Qa.b\E", "axb"),
        (r"a\z", "ab"),
        ("ABC", "abc"),
    ],
)
def test_it_does_not_permit(pattern: str, name: str) -> None:
    assert not Pattern(pattern).permits(name)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "*", "a{2,1}", "(?P<n", "\\", "[[:nonsense:]]", r"\p{X}", "a(?R)b", "(" * 9999],
)
def test_what_is_no_pattern_is_refused_with_its_reason(pattern: str) -> None:
    with pytest.raises(InvalidPattern) as refusal:
        Pattern(pattern)
    assert refusal.value.pattern == pattern
    assert refusal.value.reason
