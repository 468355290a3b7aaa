"""The table of bindings: each once, found from either end, nothing kept of those that went."""

from __future__ import annotations

from topology_samples import binding, to_exchange, to_queue, typed
from warren.model.fields import Table
from warren.model.records import BindingRecord
from warren.routing.bindings import BindingTable, normalised


def test_a_binding_is_added_once_and_removed_once() -> None:
    bindings = BindingTable()
    assert bindings.add(binding("x", "q", "k"))
    assert not bindings.add(binding("x", "q", "k"))
    assert len(bindings) == 1
    assert bindings.remove(binding("x", "q", "k"))
    assert not bindings.remove(binding("x", "q", "k"))
    assert len(bindings) == 0


def test_key_arguments_and_kind_of_destination_are_part_of_the_identity() -> None:
    bindings = BindingTable()
    alike = [
        binding("x", "q", "k"),
        binding("x", "q", "other"),
        binding("x", "q", "k", {"n": 1}),
        binding("x", "q", "k", {"n": typed("l", 1)}),
        binding("x", to_exchange("q"), "k"),
    ]
    assert all(bindings.add(each) for each in alike)
    assert list(bindings.all()) == alike


def test_bindings_are_found_from_either_end() -> None:
    bindings = BindingTable()
    first, second, third = (
        binding("x", "q", "1"),
        binding("x", to_exchange("y"), "2"),
        binding("y", "q", "3"),
    )
    for each in (first, second, third):
        bindings.add(each)
    assert bindings.of_source("x") == (first, second)
    assert bindings.of_destination(to_queue("q")) == (first, third)
    assert bindings.of_destination(to_exchange("y")) == (second,)
    assert bindings.of_source("q") == ()
    assert binding("x", "q", "1") in bindings
    assert binding("x", "q", "2") not in bindings


def test_what_was_found_may_be_removed_while_it_is_walked() -> None:
    bindings = BindingTable()
    for key in "abc":
        bindings.add(binding("x", "q", key))
    for each in bindings.of_source("x"):
        bindings.remove(each)
    assert list(bindings.all()) == []


def test_the_order_of_arguments_does_not_make_another_binding() -> None:
    one = binding("x", "q", "k", {"b": 1, "a": 2, "x-match": "any"})
    other = binding("x", "q", "k", {"x-match": "any", "a": 2, "b": 1})
    assert one != other
    assert normalised(one) == normalised(other)


def test_repeated_arguments_keep_their_order() -> None:
    arguments = Table([("b", typed("I", 1)), ("a", typed("I", 2)), ("b", typed("I", 3))])
    sorted_arguments = normalised(BindingRecord("/", "x", to_queue("q"), "", arguments)).arguments
    assert [(name, field.value) for name, field in sorted_arguments] == [
        ("a", 2),
        ("b", 1),
        ("b", 3),
    ]
