"""Chunks as the broker makes them, taken in as Arrow batches."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pyspark_warren.chunk_batches import BatchMaker
from pyspark_warren.errors import MalformedAnswer
from pyspark_warren.schema import arrow_schema, column_names
from warren.model.fields import Field, Table
from warren.streams.chunks import encode_chunk
from warren.streams.flags import REDELIVERED, with_flags
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key
from warren.wire.tables import python_to_table

MAKER = BatchMaker("orders")
ALL = (0, 2**63 - 1)
PLAIN = encode_properties(Properties(delivery_mode=2))


def a_message(body: bytes, key: str = "key", block: bytes = PLAIN) -> Message:
    return Message(make_route_key("exchange", key), PropertyBlock(block), body)


def a_chunk(first: int, *messages: Message, moment_ms: int = 1_000) -> bytes:
    return b"".join(encode_chunk(list(messages), first, moment_ms))


def test_a_chunk_becomes_rows_in_order() -> None:
    data = a_chunk(7, a_message(b"one", "a"), a_message(b"", "b"), a_message(b"three", "a"))
    batch = MAKER.batch(data, ALL)
    assert batch is not None
    batch.validate(full=True)
    assert batch.schema == arrow_schema(include_headers=True)
    assert batch["value"].to_pylist() == [b"one", b"", b"three"]
    assert batch["offset"].to_pylist() == [7, 8, 9]
    assert batch["routing_key"].to_pylist() == ["a", "b", "a"]
    assert set(batch["exchange"].to_pylist()) == {"exchange"}
    assert set(batch["queue"].to_pylist()) == {"orders"}
    assert set(batch["timestamp"].to_pylist()) == {datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}
    assert set(batch["redelivered"].to_pylist()) == {False}


def test_a_batch_has_nothing_of_the_bytes_it_was_made_of() -> None:
    """They are read over when the next piece comes."""
    chunks = [a_chunk(0, a_message(b"body"), a_message(b"other")), a_chunk(2, a_message(b"third"))]
    fetched = bytearray(b"".join(chunks))
    batch = MAKER.batch(memoryview(fetched), ALL)
    assert batch is not None
    before = batch.to_pylist()
    fetched[:] = b"x" * len(fetched)
    assert batch.to_pylist() == before
    assert [row["value"] for row in before] == [b"body", b"other", b"third"]


def test_what_all_rows_have_in_common_is_right_in_every_batch() -> None:
    maker = BatchMaker("queue")
    block = encode_properties(Properties(message_id="m", headers=python_to_table({"a": "b"})))
    for key, count in (("one", 2), ("one", 5), ("two", 3), ("one", 1)):
        data = a_chunk(0, *(a_message(b"body", key, block) for _ in range(count)))
        batch = maker.batch(data, ALL)
        assert batch is not None
        batch.validate(full=True)
        rows = batch.to_pylist()
        assert [row["routing_key"] for row in rows] == [key] * count
        assert [row["headers"] for row in rows] == [[("a", "b")]] * count
        assert [row["properties"]["message_id"] for row in rows] == ["m"] * count


def test_many_chunks_become_one_batch() -> None:
    chunks = [
        a_chunk(n * 3, *(a_message(b"%d.%d" % (n, m), f"k{n % 5}") for m in range(3)), moment_ms=n)
        for n in range(200)
    ]
    batch = MAKER.batch(b"".join(chunks), ALL)
    assert batch is not None
    batch.validate(full=True)
    assert batch["value"].to_pylist() == [b"%d.%d" % (n, m) for n in range(200) for m in range(3)]
    assert batch["offset"].to_pylist() == list(range(600))
    assert batch["routing_key"].to_pylist() == [f"k{n % 5}" for n in range(200) for _ in range(3)]
    moments = [moment.timestamp() for moment in batch["timestamp"].to_pylist()]
    assert moments == [n / 1000 for n in range(200) for _ in range(3)]


@pytest.mark.parametrize("span", [(0, 6), (1, 6), (0, 5), (2, 4), (3, 3), (5, 99), (9, 12)])
def test_what_was_not_asked_for_is_left_out(span: tuple[int, int]) -> None:
    data = b"".join(
        a_chunk(first, a_message(b"%d" % first), a_message(b"%d" % (first + 1)))
        for first in (0, 2, 4)
    )
    batch = MAKER.batch(data, span)
    expected = [n for n in range(6) if span[0] <= n < span[1]]
    found = [] if batch is None else batch["offset"].to_pylist()
    assert found == expected
    if batch is not None:
        assert batch["value"].to_pylist() == [b"%d" % n for n in expected]


def test_nothing_is_no_batch() -> None:
    assert MAKER.batch(b"", ALL) is None


def test_chunks_of_messages_delivered_before_say_so() -> None:
    data = a_chunk(0, a_message(b"new")) + with_flags(a_chunk(1, a_message(b"old")), REDELIVERED)
    batch = MAKER.batch(data, ALL)
    assert batch is not None
    assert batch["redelivered"].to_pylist() == [False, True]


def test_headers_and_properties_are_shown_as_text_and_numbers() -> None:
    headers = {"text": "t", "number": 5, "yes": True, "nested": {"a": [1, "b"]}, "nothing": None}
    block = encode_properties(
        Properties(
            headers=python_to_table(headers), message_id="m", priority=3, timestamp=60, type="kind"
        )
    )
    batch = MAKER.batch(a_chunk(0, a_message(b"", block=block), a_message(b"")), ALL)
    assert batch is not None
    shown, none = batch["headers"].to_pylist()
    assert dict(shown) == {
        "text": "t",
        "number": "5",
        "yes": "true",
        "nested": '{"a": [1, "b"]}',
        "nothing": None,
    }
    assert none is None
    properties, plain = batch["properties"].to_pylist()
    assert (properties["message_id"], properties["priority"]) == ("m", 3)
    assert properties["type"] == "kind"
    assert properties["timestamp"] == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert plain["delivery_mode"] == 2
    assert plain["message_id"] is None


def test_text_that_is_not_utf_8_does_not_end_a_query() -> None:
    table = Table([("n\udcff", Field("F", Table([("\udcfe", Field("S", b"\xff"))])))])
    block = encode_properties(Properties(headers=table, app_id="\udcff"))
    message = Message(b"\x01\xff\x01\xfe", PropertyBlock(block), b"")
    batch = MAKER.batch(a_chunk(0, message), ALL)
    assert batch is not None
    batch.validate(full=True)
    assert batch["routing_key"].to_pylist() == ["\ufffd"]
    assert batch["properties"].to_pylist()[0]["app_id"] == "\ufffd"
    assert [name for name, _ in batch["headers"].to_pylist()[0]] == ["n\ufffd"]


def test_properties_that_cannot_be_read_are_none_and_the_body_stays() -> None:
    message = Message(make_route_key("", "k"), PropertyBlock(b"\xff\xff\x00"), b"body")
    batch = MAKER.batch(a_chunk(0, message), ALL)
    assert batch is not None
    assert batch["properties"].to_pylist() == [None]
    assert batch["value"].to_pylist() == [b"body"]


def test_without_headers_the_columns_are_not_there() -> None:
    batch = BatchMaker("q", column_names(include_headers=False)).batch(
        a_chunk(0, a_message(b"")), ALL
    )
    assert batch is not None
    assert batch.schema == arrow_schema(include_headers=False)
    assert "headers" not in batch.schema.names


@pytest.mark.parametrize("place", [0, 20, 64, 70, -1])
def test_damage_is_noticed(place: int) -> None:
    data = bytearray(a_chunk(0, a_message(b"12345678"), a_message(b"12345678")))
    data[place] ^= 1
    with pytest.raises(MalformedAnswer):
        MAKER.batch(bytes(data), ALL)


def test_half_a_chunk_and_a_gap_between_two_are_noticed() -> None:
    data = a_chunk(0, a_message(b"body"))
    with pytest.raises(MalformedAnswer):
        MAKER.batch(data + data[:-8], ALL)
    with pytest.raises(MalformedAnswer, match="offset 5 instead of 1"):
        MAKER.batch(data + a_chunk(5, a_message(b"body")), ALL)
