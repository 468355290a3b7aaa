"""Headers exchanges, against what RabbitMQ 3.10.8 delivered and against its own merge."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_samples import binding, field, table, to_queue, typed
from warren.model.errors import SoftError
from warren.model.fields import Field, Table
from warren.model.records import BindingRecord
from warren.routing.exchange import validate_binding
from warren.routing.headers import HeadersMatcher

# Recorded from RabbitMQ: what was bound, what was published, and what arrived where.
BOUND: dict[str, dict[str, object]] = {
    "all": {"x-match": "all", "a": 1, "b": "z"},
    "any": {"x-match": "any", "a": 1, "b": "z"},
    "default": {"a": 1, "b": "z"},
    "none": {},
    "any-none": {"x-match": "any"},
    "exists": {"a": None},
    "all-with-x": {"x-match": "all-with-x", "x-k": "v"},
    "any-with-x": {"x-match": "any-with-x", "x-k": "v", "q": 9},
    "x-ignored": {"x-match": "all", "x-k": "v"},
    "str1": {"a": "1"},
}
PUBLISHED: dict[str, dict[str, object] | None] = {
    "ab": {"a": 1, "b": "z"},
    "a": {"a": 1},
    "none": {},
    "a2": {"a": 2, "b": "z"},
    "along": {"a": typed("l", 1)},
    "abyte": {"a": typed("b", 1)},
    "afloat": {"a": typed("d", 1.0)},
    "xk": {"x-k": "v"},
    "abc": {"a": 1, "b": "z", "c": True},
    "no-headers": None,
}
WITH_A = ["ab", "a", "a2", "along", "abyte", "afloat", "abc"]
RECORDED = {
    "all": ["ab", "abc"],
    "any": WITH_A,
    "default": ["ab", "abc"],
    "none": list(PUBLISHED),
    "any-none": [],
    "exists": WITH_A,
    "all-with-x": ["xk"],
    "any-with-x": ["xk"],
    "x-ignored": list(PUBLISHED),
    "str1": [],
}


EXPECTED = "expected all, any, all-with-x, or any-with-x"


def matches(arguments: Mapping[str, object], headers: Mapping[str, object] | None) -> bool:
    matcher = HeadersMatcher()
    matcher.add(binding("x", "q", "", arguments))
    return bool(list(matcher.match("", None if headers is None else table(headers))))


@pytest.mark.parametrize("message", PUBLISHED)
def test_matches_what_rabbitmq_matches(message: str) -> None:
    matcher = HeadersMatcher()
    for name, arguments in BOUND.items():
        matcher.add(binding("x", name, "", arguments))
    headers = PUBLISHED[message]
    found = {d.name for d in matcher.match("", None if headers is None else table(headers))}
    assert found == {name for name, messages in RECORDED.items() if message in messages}


@pytest.mark.parametrize(
    ("bound", "sent", "expected"),
    [
        (typed("I", 1), typed("T", 1), True),
        (typed("d", 2.5), typed("f", 2.5), True),
        (typed("I", 1), typed("t", True), False),
        (typed("I", 0), typed("t", False), False),
        (typed("t", True), typed("t", True), True),
        (typed("S", b"z"), typed("x", b"z"), True),
        (typed("S", b"true"), typed("t", True), False),
        (typed("D", (1, 15)), typed("D", (1, 15)), True),
        (typed("D", (1, 15)), typed("d", 1.5), False),
        (typed("S", b""), typed("V", None), False),
        (field([1, "a"]), field([1, "a"]), True),
        (field([1]), field([typed("l", 1)]), False),
        (field([typed("l", 1)]), field([typed("L", 1)]), True),
        (field({"n": 1}), field({"n": 1}), True),
        (field({"n": 1}), field({"n": 2}), False),
        (field([]), field({}), True),
    ],
)
def test_values_are_compared_as_erlang_terms(bound: Field, sent: Field, expected: bool) -> None:
    assert matches({"k": bound}, {"k": sent}) is expected
    assert matches({"k": bound, "x-match": "any"}, {"k": sent}) is expected


def test_a_void_argument_wants_the_header_whatever_its_value() -> None:
    for value in (1, "text", None, {"deep": [1]}):
        assert matches({"k": None}, {"k": value})
    assert not matches({"k": None}, {"other": 1})


def test_x_match_itself_is_never_compared() -> None:
    assert matches({"x-match": "all-with-x"}, {})
    assert not matches({"x-match": "any-with-x"}, {"x-match": "any-with-x"})


def test_unvalidated_x_match_counts_as_all() -> None:
    assert matches({"x-match": 7, "a": 1}, {"a": 1, "b": 2})
    assert not matches({"x-match": 7, "a": 1, "b": 2}, {"a": 1})


@pytest.mark.parametrize(
    ("x_match", "text"),
    [
        ("some", f'Invalid x-match field value <<"some">>; {EXPECTED}'),
        ("", f"Invalid x-match field value <<>>; {EXPECTED}"),
        ("€", f"Invalid x-match field value <<226,130,172>>; {EXPECTED}"),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
        (True, "Invalid x-match field type bool (value true); expected longstr"),
        (None, "Invalid x-match field type void (value undefined); expected longstr"),
        (typed("x", b"xx"), 'Invalid x-match field type binary (value <<"xx">>); expected longstr'),
        ([], "Invalid x-match field type array (value []); expected longstr"),
    ],
)
def test_a_bad_x_match_is_refused_in_rabbitmqs_words(x_match: object, text: str) -> None:
    with pytest.raises(SoftError) as refused:
        validate_binding("headers", binding("x", "q", "", {"x-match": x_match}))
    assert (refused.value.code, refused.value.explanation) == (406, text)


@pytest.mark.parametrize("x_match", ["all", "any", "all-with-x", "any-with-x"])
def test_a_good_x_match_is_accepted(x_match: str) -> None:
    validate_binding("headers", binding("x", "q", "", {"x-match": x_match}))


def test_only_headers_exchanges_look_at_x_match() -> None:
    for type_ in ("direct", "fanout", "topic"):
        validate_binding(type_, binding("x", "q", "", {"x-match": "nonsense"}))


def test_bindings_asking_for_the_same_go_one_by_one() -> None:
    matcher = HeadersMatcher()
    first, second = binding("x", "p", "", {"a": 1}), binding("x", "q", "", {"a": 1})
    matcher.add(first)
    matcher.add(second)
    matcher.remove(first)
    assert list(matcher.match("", table({"a": 1}))) == [to_queue("q")]
    matcher.remove(second)
    assert list(matcher.match("", table({"a": 1}))) == []


def rabbitmq_matches(arguments: Table, headers: Table) -> bool:
    """RabbitMQ's merge of two lists sorted by name, step for step."""
    how = arguments.get("x-match") or Field("S", b"all")
    with_x = how.value in (b"all-with-x", b"any-with-x")
    pattern = sorted(arguments, key=lambda item: item[0])
    data = sorted(headers, key=lambda item: item[0])
    all_match, any_match = True, False
    while pattern:
        name, wanted = pattern[0]
        if name == "x-match" or (name.startswith("x-") and not with_x):
            pattern.pop(0)
        elif not data or name < data[0][0]:
            all_match = False
            pattern.pop(0)
        elif name > data[0][0]:
            data.pop(0)
        else:
            # Only text and void are drawn below, so that equality needs no Erlang.
            if wanted.kind == "V" or wanted == data[0][1]:
                any_match = True
            else:
                all_match = False
            pattern.pop(0)
            data.pop(0)
    return any_match if how.value in (b"any", b"any-with-x") else all_match


NAMES = st.sampled_from(["a", "b", "x-c", "x-match-not"])
TEXTS = st.sampled_from([Field("S", b"1"), Field("S", b"2")])
HEADERS = st.lists(st.tuples(NAMES, TEXTS), max_size=5).map(Table)
X_MATCH = st.sampled_from([b"all", b"any", b"all-with-x", b"any-with-x"]).map(
    lambda how: [("x-match", Field("S", how))]
)
WANTED = st.lists(st.tuples(NAMES, TEXTS | st.just(Field("V", None))), max_size=4)
ARGUMENTS = st.tuples(X_MATCH | st.just([]), WANTED).map(lambda parts: Table(parts[0] + parts[1]))


@given(bound=st.lists(ARGUMENTS, max_size=6), headers=HEADERS, data=st.data())
def test_agrees_with_rabbitmqs_merge_also_after_removals(
    bound: list[Table], headers: Table, data: st.DataObject
) -> None:
    matcher = HeadersMatcher()
    bindings = [
        BindingRecord("/", "x", to_queue(f"q{number}"), "", arguments)
        for number, arguments in enumerate(bound)
    ]
    for each in bindings:
        matcher.add(each)
    gone = data.draw(st.sets(st.sampled_from(bindings))) if bindings else set()
    for each in gone:
        matcher.remove(each)
    found = [destination.name for destination in matcher.match("", headers)]
    assert sorted(found) == sorted(
        each.destination.name
        for each in bindings
        if each not in gone and rabbitmq_matches(each.arguments, headers)
    )
