"""Filters that Spark offers: which are taken over, and that they mean what Spark means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from pyspark_warren.pushdown import FilterPushdown, Pushed

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARISONS: dict[type[spark.Filter], Any] = {
    spark.EqualTo: lambda a, b: a == b,
    spark.EqualNullSafe: lambda a, b: a == b,
    spark.GreaterThan: lambda a, b: a > b,
    spark.GreaterThanOrEqual: lambda a, b: a >= b,
    spark.LessThan: lambda a, b: a < b,
    spark.LessThanOrEqual: lambda a, b: a <= b,
}
TEXTS: dict[type[spark.Filter], Any] = {
    spark.EqualTo: lambda a, b: a == b,
    spark.StringStartsWith: str.startswith,
    spark.StringEndsWith: str.endswith,
    spark.StringContains: lambda a, b: b in a,
}


def push(*filters: spark.Filter) -> tuple[Pushed, list[spark.Filter]]:
    """What is left of a read, and the filters that Spark is to apply."""
    taken = [Pushed()]
    rest = FilterPushdown(taken.append, Pushed())(filters)
    return taken[-1], rest


@given(kind=st.sampled_from(list(COMPARISONS)), value=st.integers(-5, 15))
def test_offsets_are_cut_as_spark_compares_them(kind: Any, value: int) -> None:
    pushed, rest = push(kind(("offset",), value))
    assert rest == []
    start, end = pushed.span
    for offset in range(12):
        assert (start <= offset < end) == COMPARISONS[kind](offset, value)


@given(
    kind=st.sampled_from(list(COMPARISONS)),
    value_us=st.integers(0, 4_000),
    zone=st.booleans(),
)
def test_moments_are_cut_as_spark_compares_them(kind: Any, value_us: int, zone: bool) -> None:
    moment = EPOCH + timedelta(microseconds=value_us)
    pushed, rest = push(kind(("timestamp",), moment if zone else moment.replace(tzinfo=None)))
    assert rest == []
    since, until = pushed.row_filter.since_us, pushed.row_filter.until_us
    for time_us in (0, 1_000, 2_000, 3_000, 4_000):
        holds = (since is None or since <= time_us) and (until is None or time_us < until)
        assert holds == COMPARISONS[kind](time_us, value_us)


@given(kind=st.sampled_from(list(TEXTS)), key=st.text(max_size=3), value=st.text(max_size=3))
def test_keys_are_compared_as_spark_does(kind: Any, key: str, value: str) -> None:
    pushed, rest = push(kind(("routing_key",), value))
    assert rest == []
    assert pushed.row_filter.takes_route("exchange", key) == TEXTS[kind](key, value)
    pushed, rest = push(kind(("exchange",), value))
    assert rest == []
    assert pushed.row_filter.takes_route(key, "key") == TEXTS[kind](key, value)


def test_several_filters_all_hold() -> None:
    pushed, rest = push(
        spark.GreaterThan(("offset",), 3),
        spark.LessThan(("offset",), 9),
        spark.In(("queue",), ("a", "b", None)),
        spark.EqualTo(("queue",), "b"),
        spark.IsNotNull(("offset",)),
        spark.StringStartsWith(("routing_key",), "eu."),
        spark.StringEndsWith(("routing_key",), ".uk"),
    )
    assert rest == []
    assert pushed.span == (4, 9)
    assert pushed.queues == {"b"}
    assert pushed.row_filter.takes_route("", "eu.uk")
    assert not pushed.row_filter.takes_route("", "eu.fr")


@pytest.mark.parametrize(
    "unknown",
    [
        spark.Not(spark.EqualTo(("offset",), 5)),
        spark.EqualNullSafe(("offset",), None),
        spark.EqualTo(("offset",), 1.5),
        spark.EqualTo(("offset",), True),
        spark.In(("offset",), (1, 2)),
        spark.IsNull(("routing_key",)),
        spark.IsNotNull(("headers",)),
        spark.EqualTo(("properties", "message_id"), "m"),
        spark.EqualTo(("value",), b"x"),
        spark.GreaterThan(("routing_key",), "a"),
        spark.StringStartsWith(("queue",), "a"),
    ],
)
def test_what_is_not_known_is_left_to_spark(unknown: spark.Filter) -> None:
    assert push(unknown) == (Pushed(), [unknown])


def test_nothing_is_equal_to_null() -> None:
    pushed, rest = push(spark.In(("routing_key",), (None,)))
    assert rest == []
    assert not pushed.row_filter.takes_route("", "")
