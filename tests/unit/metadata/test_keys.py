"""Keys: any name is safe in them, and comes back out of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from field_strategies import tables
from warren.metadata import keys
from warren.metadata.keys import KeyKind, ParsedKey, parse_key, prefix
from warren.metadata.store import KEY_CHARS_MAX
from warren.model.fields import Field, Table, longstr
from warren.model.records import BindingRecord, Destination, DestinationKind

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LONGEST = "€" * 85  # 255 bytes of UTF-8


def binding(arguments: Table = Table(), **changed: str) -> BindingRecord:  # noqa: B008
    named = {"vhost": "/", "source": "x", "queue": "q", "key": "k"} | changed
    destination = Destination(DestinationKind.QUEUE, named["queue"])
    return BindingRecord(named["vhost"], named["source"], destination, named["key"], arguments)


@given(NAMES, NAMES, NAMES)
def test_every_key_tells_its_kind_and_names(one: str, two: str, three: str) -> None:
    expected = {
        keys.vhost_key(one): (KeyKind.VHOST, one),
        keys.user_key(one): (KeyKind.USER, one),
        keys.permission_key(one, two): (KeyKind.PERMISSION, one, two),
        keys.topic_permission_key(one, two, three): (KeyKind.TOPIC_PERMISSION, one, two, three),
        keys.vhost_limit_key(one): (KeyKind.VHOST_LIMIT, one),
        keys.user_limit_key(one): (KeyKind.USER_LIMIT, one),
        keys.exchange_key(one, two): (KeyKind.EXCHANGE, one, two),
        keys.queue_key(one, two): (KeyKind.QUEUE, one, two),
        keys.seed_key(one): (KeyKind.SEED, one),
    }
    for key, (kind, *parts) in expected.items():
        assert key.isascii()
        assert parse_key(key) == ParsedKey(kind, tuple(parts))
    assert len(expected) == 9, "no two kinds share a key"


@given(NAMES, NAMES, NAMES, tables())
def test_a_binding_key_tells_its_ends(vhost: str, source: str, queue: str, table: Table) -> None:
    parsed = parse_key(
        keys.binding_key(binding(table, vhost=vhost, source=source, queue=queue, key=queue))
    )
    assert parsed is not None
    assert parsed.kind is KeyKind.BINDING
    assert parsed.parts[:5] == (vhost, source, "queue", queue, queue)


@given(st.lists(NAMES, min_size=4, max_size=4), st.lists(NAMES, min_size=4, max_size=4))
def test_different_bindings_have_different_keys(one: list[str], other: list[str]) -> None:
    fields = "vhost", "source", "queue", "key"
    first = binding(**dict(zip(fields, one, strict=True)))
    second = binding(**dict(zip(fields, other, strict=True)))
    assert (keys.binding_key(first) == keys.binding_key(second)) == (first == second)


def test_arguments_and_kind_of_destination_are_part_of_a_binding() -> None:
    exchange = Destination(DestinationKind.EXCHANGE, "q")
    found = {
        keys.binding_key(binding()),
        keys.binding_key(binding(Table([("a", longstr("1"))]))),
        keys.binding_key(binding(Table([("a", longstr("2"))]))),
        keys.binding_key(binding(Table([("a", Field("l", 1))]))),
        keys.binding_key(BindingRecord("/", "x", exchange, "k")),
    }
    assert len(found) == 5


def test_the_order_of_arguments_is_no_part_of_a_binding() -> None:
    one, two = ("a", longstr("1")), ("b", longstr("2"))
    assert keys.binding_key(binding(Table([one, two]))) == keys.binding_key(
        binding(Table([two, one]))
    )


def test_a_prefix_finds_its_own_and_no_neighbour() -> None:
    own = prefix(KeyKind.QUEUE, "a")
    assert keys.queue_key("a", "q").startswith(own)
    assert keys.queue_key("a", "").startswith(own)
    for stranger in (keys.queue_key("ab", "q"), keys.queue_key("a/b", "q"), keys.vhost_key("a")):
        assert not stranger.startswith(own)
    assert keys.queue_key("ab", "q").startswith(prefix(KeyKind.QUEUE))


def test_the_longest_names_fit() -> None:
    key = keys.binding_key(binding(vhost=LONGEST, source=LONGEST, queue=LONGEST, key=LONGEST))
    assert len(key) < KEY_CHARS_MAX


@pytest.mark.parametrize("key", ["", "queue", "queue/a", "queue/a/b/c", "planet/a/b", "QUEUE/a/b"])
def test_what_is_no_key_of_ours_is_none(key: str) -> None:
    assert parse_key(key) is None
