"""Topic exchanges, against what RabbitMQ 3.10.8 delivered and against a plain matcher."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_samples import binding, to_queue
from warren.routing import topic
from warren.routing.topic import TopicMatcher

# Recorded from RabbitMQ: pattern -> keys, of KEYS, that reached a queue bound by it.
KEYS = ["", "a", "b", "a.b", "a.c", "a.b.c", "a..c", ".", "a.", "x.a.y", "A.b", "a.b.b.c"]
RECORDED = {
    "#": KEYS,
    "*": ["a", "b"],
    "a": ["a"],
    "a.*": ["a.b", "a.c", "a."],
    "a.#": ["a", "a.b", "a.c", "a.b.c", "a..c", "a.", "a.b.b.c"],
    "*.b": ["a.b", "A.b"],
    "#.b": ["b", "a.b", "A.b"],
    "a.*.c": ["a.b.c", "a..c"],
    "a.#.c": ["a.c", "a.b.c", "a..c", "a.b.b.c"],
    "": [""],
    "a..c": ["a..c"],
    "#.#": KEYS,
    "*.#": KEYS[1:],
    "#.a.#": ["a", "a.b", "a.c", "a.b.c", "a..c", "a.", "x.a.y", "a.b.b.c"],
    "a.b.c": ["a.b.c"],
}


def matcher_of(*patterns: str) -> TopicMatcher:
    """A matcher in which each pattern leads to a queue of the same name."""
    matcher = TopicMatcher()
    for pattern in patterns:
        matcher.add(binding("x", pattern, pattern))
    return matcher


def matched(matcher: TopicMatcher, key: str) -> set[str]:
    return {destination.name for destination in matcher.match(key, None)}


def plainly_matches(pattern: list[str], words: list[str]) -> bool:
    """The definition, read aloud."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(plainly_matches(pattern[1:], words[i:]) for i in range(len(words) + 1))
    if not words:
        return False
    return pattern[0] in ("*", words[0]) and plainly_matches(pattern[1:], words[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


@pytest.mark.parametrize("key", KEYS)
def test_matches_what_rabbitmq_matches(key: str) -> None:
    expected = {pattern for pattern, keys in RECORDED.items() if key in keys}
    assert matched(matcher_of(*RECORDED), key) == expected


@pytest.mark.parametrize("pattern", RECORDED)
def test_a_pattern_alone_matches_as_it_does_among_others(pattern: str) -> None:
    matcher = matcher_of(pattern)
    assert [key for key in KEYS if matched(matcher, key)] == RECORDED[pattern]


@pytest.mark.parametrize("key", ["*", "#", "a.*", "a.#", "#.b"])
def test_wildcards_in_a_published_key_are_plain_words(key: str) -> None:
    matcher = matcher_of("a", "a.b", "b", "a.b.b")
    assert matched(matcher, key) == set()
    assert matched(matcher_of(key), key) == {key}


def test_words_are_compared_with_their_case_and_accents() -> None:
    matcher = matcher_of("Straße.é", "strasse.e", "Straße.*")
    assert matched(matcher, "Straße.é") == {"Straße.é", "Straße.*"}
    assert matched(matcher, "straße.é") == set()


def test_a_destination_stays_until_its_last_binding_goes() -> None:
    matcher = TopicMatcher()
    first, second = binding("x", "q", "a.*"), binding("x", "q", "a.*", {"n": 1})
    matcher.add(first)
    matcher.add(second)
    matcher.remove(first)
    assert list(matcher.match("a.b", None)) == [to_queue("q")]
    matcher.remove(second)
    assert list(matcher.match("a.b", None)) == []


def test_removing_bindings_leaves_nothing_behind() -> None:
    matcher = matcher_of("a.b", "", "a.*.#")
    before = matcher.node_count
    patterns = ["a", "a.b.c.d.e", "*.*.*", "#.#.#", "a.*.#.b", "a.#", "#"]
    for pattern in patterns:
        matcher.add(binding("x", pattern, pattern))
    assert matcher.node_count > before
    for pattern in patterns:
        matcher.remove(binding("x", pattern, pattern))
    assert matcher.node_count == before
    assert matched(matcher, "a.b") == {"a.b", "a.*.#"}


def test_a_shorter_pattern_survives_the_removal_of_a_longer_one() -> None:
    matcher = matcher_of("a.b", "a.b.c")
    matcher.remove(binding("x", "a.b.c", "a.b.c"))
    assert matched(matcher, "a.b") == {"a.b"}
    assert matched(matcher, "a.b.c") == set()


def test_patterns_full_of_hashes_do_not_stall_the_search() -> None:
    """A backtracking search of this one takes longer than the universe has had."""
    hostile = ".".join(["#", "a"] * 40)
    matcher = matcher_of(hostile, "#." * 50 + "#")
    key = ".".join(["a"] * 100) + ".b"
    assert matched(matcher, key) == {"#." * 50 + "#"}
    assert matched(matcher, key[:-2]) == {hostile, "#." * 50 + "#"}


def test_a_search_among_a_hundred_thousand_bindings_visits_a_handful_of_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = TopicMatcher()
    for number in range(100_000):
        matcher.add(binding("x", f"q{number}", f"region.{number % 300}.sensor{number}.#"))
    entered = []
    enter = topic._enter
    monkeypatch.setattr(topic, "_enter", lambda *args: (entered.append(1), enter(*args)))
    assert matched(matcher, "region.7.sensor3007.temperature") == {"q3007"}
    assert matched(matcher, "region.8.sensor3007.temperature") == set()
    assert len(entered) <= 10


WORDS = st.sampled_from(["a", "b", "", "*", "#"])
PATTERNS = st.lists(WORDS, max_size=6).map(".".join)
PUBLISHED = st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=7).map(".".join)


@given(patterns=st.sets(PATTERNS, max_size=12), keys=st.lists(PUBLISHED, max_size=6))
def test_agrees_with_the_definition(patterns: set[str], keys: list[str]) -> None:
    matcher = matcher_of(*patterns)
    for key in keys:
        expected = {p for p in patterns if plainly_matches(split(p), split(key))}
        assert matched(matcher, key) == expected


@given(data=st.data(), patterns=st.lists(PATTERNS, unique=True, max_size=12))
def test_after_removals_it_is_as_if_the_rest_had_been_added_alone(
    data: st.DataObject, patterns: list[str]
) -> None:
    gone = data.draw(st.lists(st.sampled_from(patterns), unique=True)) if patterns else []
    matcher = matcher_of(*patterns)
    for pattern in gone:
        matcher.remove(binding("x", pattern, pattern))
    rest = matcher_of(*(p for p in patterns if p not in gone))
    key = data.draw(PUBLISHED)
    assert matched(matcher, key) == matched(rest, key)
    assert matcher.node_count == rest.node_count
