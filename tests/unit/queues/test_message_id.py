"""The id of a message, found among whatever else its properties say."""

from __future__ import annotations

import pytest

from warren.model.deduplication import DEDUPLICATION_HEADER, key_of
from warren.model.fields import Field, Table
from warren.queues.message_id import id_of
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties

ID = (DEDUPLICATION_HEADER, Field("S", b"the id"))
NESTED = Table([(DEDUPLICATION_HEADER, Field("S", b"another")), ("b", Field("I", 1))])
BEFORE = (
    ("void", Field("V", None)),
    ("bool", Field("t", True)),
    ("octet", Field("b", -1)),
    ("unsigned octet", Field("B", 200)),
    ("short", Field("s", -2)),
    ("unsigned short", Field("u", 2)),
    ("int", Field("I", -3)),
    ("unsigned int", Field("i", 3)),
    ("long", Field("l", -4)),
    ("float", Field("f", 1.5)),
    ("double", Field("d", 2.5)),
    ("moment", Field("T", 5)),
    ("text", Field("S", DEDUPLICATION_HEADER.encode())),
    ("bytes", Field("x", b"\0" * 300)),
    ("table", Field("F", NESTED)),
    ("list", Field("A", (Field("S", b"one"), Field("F", NESTED)))),
)


def message(headers: Table | None, **others: str) -> Message:
    block = encode_properties(Properties(headers=headers, delivery_mode=2, **others))
    return Message(b"", PropertyBlock(block), b"body")


@pytest.mark.parametrize("others", [{}, {"content_type": "a"}, {"content_encoding": "gzip"}])
@pytest.mark.parametrize("before", [(), *([field] for field in BEFORE), BEFORE])
def test_the_id_is_found_behind_anything(
    before: tuple[tuple[str, Field], ...], others: dict[str, str]
) -> None:
    assert id_of(message(Table([*before, ID, ("last", Field("t", False))]), **others)) == b"sthe id"
    assert id_of(message(Table(before), **others)) is None


def test_the_first_of_two_counts() -> None:
    second = (DEDUPLICATION_HEADER, Field("S", b"second"))
    assert id_of(message(Table([ID, second]))) == b"sthe id"


@pytest.mark.parametrize(
    "field", [Field("I", 7), Field("t", True), Field("V", None), Field("S", b"l" * 100)]
)
def test_an_id_may_be_anything(field: Field) -> None:
    assert id_of(message(Table([(DEDUPLICATION_HEADER, field)]))) == key_of(field)


def test_other_places_for_the_name_do_not_count() -> None:
    longer = (DEDUPLICATION_HEADER + "s", Field("S", b"x"))
    assert id_of(message(None, message_id=DEDUPLICATION_HEADER)) is None
    assert id_of(message(Table([longer]))) is None


def test_of_a_block_that_is_cut_off_there_is_no_id() -> None:
    block = encode_properties(Properties(headers=Table([ID])))
    for end in range(len(block)):
        assert id_of(Message(b"", PropertyBlock(block[:end]), b"")) is None
