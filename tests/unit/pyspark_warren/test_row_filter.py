"""Filters of rows: what they let pass, and that the broker never skips what they would."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from pyspark_warren.errors import InvalidOption
from pyspark_warren.properties import plain_headers
from pyspark_warren.row_filter import (
    QUERY_BYTES_MAX,
    HeadersTest,
    RowFilter,
    TextTest,
    parse_headers,
    parse_keys,
    topic_matches,
)
from warren.management.errors import Refusal
from warren.management.selections import selection_of
from warren.model.records import BindingRecord, Destination, DestinationKind
from warren.routing.topic import TopicMatcher
from warren.streams.chunk_format import read_header
from warren.streams.chunks import encode_chunk
from warren.streams.selecting import ChunkLead, Selection
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key
from warren.wire.tables import python_to_table

WORDS = st.sampled_from(["", "*", "#", "a", "b", "aé", "*a"])
KEYS = st.lists(WORDS, max_size=5).map(".".join)
ODD_TEXTS = st.text(max_size=20).filter(lambda text: text.isprintable() or not text)
HEADER_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), ODD_TEXTS, st.floats(allow_nan=False)
)
HEADERS = st.dictionaries(st.sampled_from(["a", "é", "long" * 20]), HEADER_VALUES, max_size=3)


def asked(query: list[tuple[str, str]]) -> Selection | None:
    """What the broker makes of a query."""
    params = QueryParams(urlencode(query))
    call: Any = SimpleNamespace(query=params, request=SimpleNamespace(query_params=params))
    return selection_of(call)


def lead_of(key: str, headers: dict[str, Any] | None) -> ChunkLead:
    table = None if headers is None else python_to_table(headers)
    block = encode_properties(Properties(headers=table))
    message = Message(make_route_key("exchange", key), PropertyBlock(block), b"body")
    data = b"".join(encode_chunk([message], 0, 0))
    return ChunkLead(read_header(data), data)


def may_match(query: list[tuple[str, str]], lead: ChunkLead) -> bool:
    selection = asked(query)
    return selection is None or selection.may_match is None or selection.may_match(lead)


@given(pattern=KEYS, key=KEYS)
def test_patterns_match_as_a_topic_exchange_has_it(pattern: str, key: str) -> None:
    matcher = TopicMatcher()
    matcher.add(BindingRecord("", "", Destination(DestinationKind.QUEUE, "q"), pattern))
    assert topic_matches(pattern, key) == bool(matcher.match(key, None))


@given(
    kind=st.sampled_from(["pattern", "equal", "prefix", "suffix", "contained"]),
    texts=st.lists(KEYS, min_size=1, max_size=4),
    key=KEYS,
)
def test_the_broker_skips_no_key_that_a_filter_lets_pass(
    kind: Any, texts: list[str], key: str
) -> None:
    row_filter = RowFilter(keys=(TextTest(kind, tuple(texts)),))
    if row_filter.takes_route("exchange", key):
        assert may_match(row_filter.query(), lead_of(key, None))


def test_the_broker_skips_what_cannot_match() -> None:
    one_key = RowFilter(keys=(parse_keys("filterRoutingKey", "eu.#"),)).query()
    assert may_match(one_key, lead_of("eu.paris", None))
    assert not may_match(one_key, lead_of("us.eu", None))
    header = RowFilter(headers=HeadersTest((("type", "order"),))).query()
    assert may_match(header, lead_of("", {"type": "order"}))
    assert not may_match(header, lead_of("", {"type": "click"}))
    assert not may_match(header, lead_of("", None))


@given(wanted=HEADERS.filter(bool), found=HEADERS, is_any=st.booleans())
def test_the_broker_skips_no_headers_that_a_filter_lets_pass(
    wanted: dict[str, Any], found: dict[str, Any], is_any: bool
) -> None:
    test = HeadersTest(tuple(wanted.items()), is_any)
    block = encode_properties(Properties(headers=python_to_table(found)))
    if test.holds(plain_headers(block)):
        assert may_match(RowFilter(headers=test).query(), lead_of("", found))


@given(headers=HEADERS.filter(bool))
def test_a_message_has_the_headers_it_has(headers: dict[str, Any]) -> None:
    block = encode_properties(Properties(headers=python_to_table(headers)))
    test = parse_headers("filterHeaders", json.dumps(headers))
    assert test.holds(plain_headers(block))
    assert not test.holds({})


@pytest.mark.parametrize(
    ("wanted", "found", "holds"),
    [
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {"b": 1}, False),
        ({"a": ""}, {"a": ""}, True),
        ({"a": "x", "b": "y", "x-match": "any"}, {"b": "y"}, True),
        ({"a": "x", "b": "y"}, {"b": "y"}, False),
    ],
)
def test_headers_are_compared_with_their_types(
    wanted: dict[str, Any], found: dict[str, Any], holds: bool
) -> None:
    assert parse_headers("filterHeaders", json.dumps(wanted)).holds(found) is holds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "is no JSON object"),
        ("{}", "give 1 to 64 headers"),
        ('{"": "x"}', "is no name of a header"),
        (json.dumps({"é" * 128: "x"}), "is no name of a header"),
        ('{"a": [1]}', "is no text, number or truth value"),
        ('{"a": 1, "x-match": "some"}', "neither all nor any"),
    ],
)
def test_wrong_headers_are_refused_by_the_name_of_the_option(text: str, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"option filterHeaders: .*{problem}"):
        parse_headers("filterHeaders", text)


def test_conditions_that_do_not_fit_into_an_address_are_not_told() -> None:
    keys = TextTest("equal", tuple("é" * 100 + str(number) for number in range(60)))
    long = HeadersTest((("a", "x" * QUERY_BYTES_MAX),))
    assert RowFilter(keys=(keys,), headers=long).query() == []
    short = TextTest("prefix", ("eu.",))
    assert RowFilter(keys=(keys, short)).query() == [("key_prefix", "eu.")]
    half_a_pair = parse_headers("filterHeaders", '{"a": "\\ud800"}')
    assert RowFilter(headers=half_a_pair).query() == []


@pytest.mark.parametrize(
    "query",
    [
        [("without", "everything")],
        [("headers", "{")],
        [("headers", "[]")],
        [("headers", '{"": null}')],
        [("headers", '{"a": 1}')],
        [("headers", '{"a": "\\ud800"}')],
        [("headers", '{"\\ud800": null}')],
        [("key", "x")] * 65,
        [("key", "x" * 1_025)],
    ],
)
def test_the_broker_refuses_what_is_no_condition(query: list[tuple[str, str]]) -> None:
    with pytest.raises(Refusal) as caught:
        asked(query)
    assert caught.value.status == 400


def test_nothing_is_left_out_unless_asked_for() -> None:
    assert asked([]) is None
    selection = asked([("without", "bodies,properties")])
    assert selection is not None
    assert selection.may_match is None
