"""Exchanges: the plain kinds, and what an exchange knows of itself."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange, to_exchange, to_queue, typed
from warren.routing.exchange import KNOWN_TYPES, Exchange, make_exchange


def bound(type_: str, *bindings_keys: str) -> Exchange:
    made = make_exchange(exchange("x", type_))
    for key in bindings_keys:
        made.bind(binding("x", f"q-{key}", key))
    return made


def routed(exchange_: Exchange, key: str) -> set[str]:
    return {destination.name for destination in exchange_.route(key, None)}


def test_the_four_kinds_and_those_of_plug_ins_are_known() -> None:
    four = {"direct", "fanout", "topic", "headers"}
    assert frozenset({*four, "x-message-deduplication", "x-super-stream"}) == KNOWN_TYPES


def test_direct_routes_by_the_exact_key() -> None:
    made = bound("direct", "a", "a.b", "#", "")
    for key in ("a", "a.b", "#", ""):
        assert routed(made, key) == {f"q-{key}"}
    assert routed(made, "A") == set()


def test_fanout_routes_every_key_to_all() -> None:
    made = bound("fanout", "a", "b")
    assert routed(made, "whatever") == {"q-a", "q-b"}


@pytest.mark.parametrize("type_", sorted(KNOWN_TYPES))
def test_a_kind_forgets_what_is_unbound(type_: str) -> None:
    made = make_exchange(exchange("x", type_))
    twins = [binding("x", "q", "k", {"n": typed("V", None)}), binding("x", "q", "k")]
    for each in twins:
        made.bind(each)
    assert not made.is_unused
    made.unbind(twins[0])
    assert list(made.route("k", None)) == [to_queue("q")]
    assert not made.is_unused
    made.unbind(twins[1])
    assert list(made.route("k", None)) == []
    assert made.is_unused


def test_being_a_destination_is_not_being_used() -> None:
    assert make_exchange(exchange("x")).is_unused


def test_the_alternate_exchange_comes_from_the_arguments() -> None:
    assert make_exchange(exchange("x")).alternate is None
    assert make_exchange(exchange("x", arguments={"alternate-exchange": "é"})).alternate == "é"


def test_the_next_exchanges_are_those_bound_and_the_alternate() -> None:
    made = make_exchange(exchange("x", arguments={"alternate-exchange": "ae"}))
    first, second = binding("x", to_exchange("y"), "1"), binding("x", to_exchange("y"), "2")
    for each in (first, second, binding("x", "q", "1")):
        made.bind(each)
    assert made.next_exchanges == ["y", "ae"]
    made.unbind(first)
    assert made.next_exchanges == ["y", "ae"]
    made.unbind(second)
    assert made.next_exchanges == ["ae"]
