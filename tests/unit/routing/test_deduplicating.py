"""Deduplicating exchanges: each id goes to every binding once."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange
from warren.model.errors import SoftError
from warren.model.fields import Field, Table
from warren.routing.exchange import Exchange, make_exchange, validate_exchange

TYPE = "x-message-deduplication"


class World:
    def __init__(self, **arguments: Field) -> None:
        self.now_ms = 1_000
        named = {f"x-cache-{name}": field for name, field in arguments.items()}
        record = exchange("x", TYPE, arguments=named)
        validate_exchange(record)
        self.exchange: Exchange = make_exchange(record, lambda: self.now_ms)
        self.exchange.bind(binding("x", "q", "k"))

    def passes(self, *headers: tuple[str, Field]) -> bool:
        return bool(list(self.exchange.route("any", Table(headers))))


def an_id(value: bytes) -> tuple[str, Field]:
    return ("x-deduplication-header", Field("S", value))


def test_a_repeat_matches_nothing() -> None:
    world = World(size=Field("I", 10))
    assert world.passes(an_id(b"1"))
    assert not world.passes(an_id(b"1"))
    assert world.passes(an_id(b"2"))


def test_messages_without_an_id_all_pass() -> None:
    world = World(size=Field("I", 10))
    assert world.passes()
    assert world.passes()
    assert list(world.exchange.route("any", None))


def test_the_cache_holds_as_many_as_it_was_told() -> None:
    world = World(size=Field("S", b"2"))
    for value in (b"1", b"2", b"3"):
        assert world.passes(an_id(value))
    assert not world.passes(an_id(b"2"))
    assert world.passes(an_id(b"1"))


def test_an_id_counts_until_its_time_is_up() -> None:
    world = World(size=Field("I", 10), ttl=Field("I", 500))
    assert world.passes(an_id(b"1"))
    world.now_ms += 499
    assert not world.passes(an_id(b"1"))
    world.now_ms += 1
    assert world.passes(an_id(b"1"))


def test_a_message_may_say_how_long_its_id_counts() -> None:
    world = World(size=Field("I", 10), ttl=Field("I", 500))
    assert world.passes(an_id(b"1"), ("x-cache-ttl", Field("I", 2_000)))
    world.now_ms += 1_999
    assert not world.passes(an_id(b"1"))


def test_its_routes_are_found_for_every_message() -> None:
    assert World(size=Field("I", 10)).exchange.depends_on_headers


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "Missing or invalid argument, 'x-cache-size' must be an integer greater than 0"),
        ({"size": Field("I", 0)}, "Missing or invalid argument, 'x-cache-size'"),
        ({"size": Field("S", b"1x")}, "Missing or invalid argument, 'x-cache-size'"),
        ({"size": Field("t", True)}, "Missing or invalid argument, 'x-cache-size'"),
        (
            {"size": Field("I", 1), "ttl": Field("I", -1)},
            "Invalid argument, 'x-cache-ttl' must be an integer greater than 0",
        ),
        (
            {"size": Field("I", 1), "persistence": Field("S", b"tape")},
            "Invalid argument, 'x-cache-persistence' must be either 'disk' or 'memory'",
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, Field], problem: str
) -> None:
    with pytest.raises(SoftError, match=problem):
        World(**arguments)
