"""`warren pipeline ingest`: streams into a lake, each message once."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from fastavro import parse_schema, schemaless_writer
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from lake_tables import table_in
from pyspark_warren.errors import WarrenError
from pyspark_warren.jobs import IngestOptions, ingest
from pyspark_warren.jobs.decoding import MORE_THAN_JSON, decode

GOOD = [b' {"id": %d, "name": "n"}\n' % number for number in range(5)]
BAD = {
    b"{": "not JSON",
    b"\xff": "not UTF-8",
    b'{"name": "x"}': "field id is missing",
    b'{"id": "text"}': "does not match the schema: it is OBJECT<id: STRING>",
    b"[1]": "does not match the schema: it is ARRAY<BIGINT>",
    b"": "not JSON",
    b"null": "does not match the schema: it is VOID",
    b'{"id": 1} and more': MORE_THAN_JSON,
    b'{"id": 1}{"id": 2}': MORE_THAN_JSON,
    b'{"id": 1}, {"id": 2}': MORE_THAN_JSON,
    b'{"id": 1}, "name": "x"': MORE_THAN_JSON,
    b'{"id": 1}]': MORE_THAN_JSON,
    b'{"id": 1}}': MORE_THAN_JSON,
    b'{"id": 1}\x00': MORE_THAN_JSON,
}


def test_good_bodies_are_decoded_and_bad_ones_kept_with_the_reason(
    spark: SparkSession, channel: BlockingChannel, stream: str, http_url: str, tmp_path: Path
) -> None:
    for body in [*GOOD, *BAD]:
        channel.basic_publish("", stream, body)
    options = IngestOptions(
        url=http_url, queue=stream, lake=str(tmp_path), format="json", once=True, offsets_max=12,
        schema="id BIGINT NOT NULL, name STRING",
    )  # fmt: skip
    done = ingest(spark, options)
    assert (done.batches, done.messages, done.quarantined) == (2, len(GOOD), len(BAD))
    messages = table_in(tmp_path).to_pylist()
    assert [(row["body"]["id"], row["body"]["name"], row["queue"]) for row in messages] == [
        (number, "n", stream) for number in range(5)
    ]
    hours = {f"{row['timestamp']:%Y-%m-%d-%H}" for row in messages}
    assert {row["hour"] for row in messages} == hours
    quarantine = table_in(tmp_path, "quarantine").to_pylist()
    assert {row["value"]: row["reason"] for row in quarantine} == BAD
    assert ingest(spark, options).batches == 0


def test_avro_bodies_are_decoded_or_have_a_reason(spark: SparkSession) -> None:
    schema = """{"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}}]}"""
    good = io.BytesIO()
    parsed = parse_schema(json.loads(schema))
    schemaless_writer(good, parsed, {"id": 7, "at": 1000, "tags": ["a", "b"]})
    bodies = [good.getvalue(), good.getvalue() + b"x", b"\x01"]
    frame = spark.createDataFrame([(body,) for body in bodies], "value binary").coalesce(1)
    whole, longer, cut = decode(frame, "avro", schema).collect()
    assert (whole.body.id, whole.body.at.timestamp(), whole.body.tags) == (7, 1.0, ["a", "b"])
    assert whole.reason is None
    assert longer.reason == "does not match the schema: 1 bytes are left over"
    assert cut.body is None
    assert cut.reason.startswith("does not match the schema")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": "no such stream"}, "there is no 'no such stream'"),
        ({"queue": "classic"}, "is not a stream"),
        ({"queue": "classic", "password": "wrong"}, "refuses user 'guest'"),
        ({}, "option queue: name 1 to 1000 queues"),
        ({"queue": "classic", "format": "json"}, "option schema: is missing"),
        ({"queue": "classic", "schema": "a INT"}, "option schema: raw bodies have none"),
        ({"queue": "classic", "format": "json", "schema": "a WHAT"}, "option schema:"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    spark: SparkSession,
    channel: BlockingChannel,
    http_url: str,
    tmp_path: Path,
    options: dict[str, str],
    message: str,
) -> None:
    channel.queue_declare("classic", durable=True)
    url = http_url.replace("guest:guest@", "")
    with pytest.raises(WarrenError, match=message):
        ingest(spark, IngestOptions(url=url, lake=str(tmp_path), once=True, **options))
