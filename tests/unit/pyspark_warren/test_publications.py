"""Rows of Arrow batches as messages."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pyspark_warren.content_frames import octets_of
from pyspark_warren.errors import InvalidOption, PublishFailed
from pyspark_warren.options import SinkOptions, parse_sink_options
from pyspark_warren.publications import BLOCK_BYTES, DEDUPLICATION_HEADER, Encoder
from pyspark_warren.schema import HEADERS, spark_schema
from pyspark_warren.sink_columns import check_columns
from warren.wire.codec import Message, OutputBuffer, PropertyBlock
from warren.wire.methods import decode_method
from warren.wire.properties import Properties, decode_properties
from warren.wire.tables import table_to_python

FRAME_MAX = 4_096


def options(**given: str) -> SinkOptions:
    return parse_sink_options({"url": "amqp://host", **given})


@dataclass
class Published:
    """What a broker makes of the frames of a row."""

    method: bytes
    block: bytes
    body: bytes


def published_of(frames: bytes) -> Published:
    found: list[tuple[int, bytes]] = []
    while frames:
        kind, channel, size = struct.unpack_from(">BHI", frames)
        assert (channel, size <= FRAME_MAX - 8, frames[7 + size]) == (1, True, 0xCE)
        found.append((kind, frames[7 : 7 + size]))
        frames = frames[8 + size :]
    (first, method), (second, header), *bodies = found
    assert (first, second, {kind for kind, _ in bodies} - {3}) == (1, 2, set())
    body = b"".join(part for _, part in bodies)
    assert struct.unpack_from(">HHQ", header) == (60, 0, len(body))
    return Published(method, header[12:], body)


def encoded(batch: pa.RecordBatch, **given: str) -> list[Published]:
    blocks = Encoder(options(**given)).encode(batch, FRAME_MAX)
    return [published_of(frames) for block in blocks for frames in block.to_pylist()]


def properties_of(publication: Published) -> Properties:
    return decode_properties(publication.block)


def headers_of(publication: Published) -> dict[str, object]:
    headers = properties_of(publication).headers
    return {} if headers is None else table_to_python(headers)


def test_a_row_of_a_body_is_persistent_and_mandatory_and_goes_where_options_say() -> None:
    batch = pa.record_batch({"value": [b"one", b"two"]})
    published = encoded(batch, exchange="events", routingKey="key")
    assert [p.body for p in published] == [b"one", b"two"]
    method = decode_method(published[0].method)
    assert (method.exchange, method.routing_key, method.mandatory) == ("events", "key", True)
    assert properties_of(published[1]) == Properties(delivery_mode=2)


def test_columns_go_before_options_where_they_say_something() -> None:
    batch = pa.record_batch(
        {"value": ["a", "b"], "exchange": ["own", None], "routing_key": ["k"] * 2}
    )
    first, second = (decode_method(p.method) for p in encoded(batch, exchange="events"))
    assert (first.exchange, second.exchange) == ("own", "events")


def test_ids_are_the_same_for_the_same_columns_and_for_no_others() -> None:
    batch = pa.record_batch(
        {"value": [b""] * 4, "queue": ["q", "a:1", "a", "a%3A1"], "offset": ["7", "2", "1:2", "2"]}
    )
    published = encoded(batch, routingKey="k", idColumns="queue,offset")
    ids = [headers_of(p)[DEDUPLICATION_HEADER] for p in published]
    assert ids == ["q:7", "a%3A1:2", "a:1%3A2", "a%253A1:2"]
    assert all(properties_of(p).delivery_mode == 2 for p in published)


def test_frames_are_those_that_the_broker_itself_would_write() -> None:
    """Bodies of nothing, of one frame, of exactly one, and of several; with and without ids."""
    bodies = [b"", b"a", b"b" * (FRAME_MAX - 8), b"c" * (FRAME_MAX - 7), b"d" * 3 * FRAME_MAX, b"e"]
    batch = pa.record_batch({"value": bodies, "number": range(len(bodies))})
    for given in ({}, {"idColumns": "number"}):
        output = OutputBuffer(FRAME_MAX, 1 << 40, lambda: None)
        for publication in encoded(batch, routingKey="key", **given):
            block = PropertyBlock(publication.block)
            output.content(1, publication.method, Message(b"", block, publication.body))
        blocks = Encoder(options(routingKey="key", **given)).encode(batch, FRAME_MAX)
        sent = b"".join(bytes(octets_of(block)) for block in blocks)
        assert sent == b"".join(bytes(part) for part in output.take())


def test_each_row_goes_its_own_way() -> None:
    count = 3_000
    keys = [f"key {number % 7}" for number in range(count)]
    exchanges = ["own" if number % 3 else None for number in range(count)]
    bodies = [b"%d" % number for number in range(count)]
    batch = pa.record_batch({"value": bodies, "routing_key": keys, "exchange": exchanges})
    published = encoded(batch.slice(10), exchange="other")
    assert [p.body for p in published] == bodies[10:]
    methods = [decode_method(p.method) for p in published]
    assert [method.routing_key for method in methods] == keys[10:]
    assert [method.exchange for method in methods] == [name or "other" for name in exchanges[10:]]


def test_blocks_have_few_messages_and_few_bytes_and_at_least_one() -> None:
    small, large = [b"small"] * 25, [b"l" * BLOCK_BYTES, b"m" * (BLOCK_BYTES + 1)]
    encoder = Encoder(options(routingKey="key"), 10)
    batch = pa.record_batch({"value": [*small, *large, *small]})
    counts = [len(block) for block in encoder.encode(batch, FRAME_MAX)]
    assert counts == [10, 10, 5, 1, 1, 10, 10, 5]


def test_headers_properties_and_message_ids_of_rows_are_sent() -> None:
    kept = {"content_type": "text/plain", "priority": 4, "delivery_mode": None}
    moment = {"timestamp": datetime(1970, 1, 1, 0, 1, tzinfo=UTC)}
    batch = pa.record_batch(
        {
            "value": [b"", b""],
            "headers": pa.array([[("a", "1"), ("b", None)], None], HEADERS),
            "properties": [{**kept, **moment}, None],
            "message_id": ["m", None],
            "number": [5, 6],
        }
    )
    first, second = encoded(batch, routingKey="k", idColumns="number")
    assert headers_of(first) == {"a": "1", "b": None, DEDUPLICATION_HEADER: "5"}
    assert headers_of(second) == {DEDUPLICATION_HEADER: "6"}
    properties = properties_of(first)
    assert (properties.content_type, properties.priority) == ("text/plain", 4)
    assert (properties.timestamp, properties.message_id) == (60, "m")
    assert properties.delivery_mode == 2


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        ({"value": pa.array([b"", None])}, {}, "column value is null in 1 rows"),
        (
            {"value": [b"", b""], "routing_key": pa.array(["k", None])},
            {},
            "column routing_key is null in 1 rows; fill it, or give routingKey",
        ),
        ({"value": [b""], "n": pa.array([None], pa.int64())}, {"idColumns": "n"}, "n is null"),
        ({"value": [b""], "routing_key": ["k" * 256]}, {}, "a short string has 255 bytes at most"),
        ({"value": [b""], "message_id": ["m" * 256]}, {}, "message_id has 256 bytes"),
    ],
)
def test_a_row_that_cannot_be_published_says_why(
    columns: dict[str, object], given: dict[str, str], message: str
) -> None:
    with pytest.raises(PublishFailed, match=message):
        encoded(pa.record_batch(columns), **given)


def test_a_row_without_a_key_goes_where_the_option_says() -> None:
    batch = pa.record_batch({"value": [b"", b""], "routing_key": pa.array(["k", None])})
    methods = [decode_method(one.method) for one in encoded(batch, routingKey="other")]
    assert [getattr(method, "routing_key", None) for method in methods] == ["k", "other"]


def test_what_the_source_gives_the_sink_takes() -> None:
    check_columns(spark_schema(include_headers=True), options(idColumns="queue,offset"))
    with pytest.raises(InvalidOption, match="there is no column offsets; did you mean offset"):
        check_columns(spark_schema(include_headers=True), options(idColumns="offsets"))
