"""The Spark source and sink over TLS, as Spark's workers use them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.errors import InvalidOption
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.writer import publish_all
from tls.conftest import Open, TlsBroker

ROWS = pa.record_batch({"value": pa.array([b"one", b"two"])})


def test_rows_are_published_and_read_from_whom_the_authority_vouches_for(
    tls_broker: TlsBroker, open_tls: Open
) -> None:
    channel = open_tls().channel()
    channel.queue_declare("for-spark", durable=True, arguments={"x-queue-type": "stream"})
    url = f"amqps://127.0.0.1:{tls_broker.amqps_port},https://127.0.0.1:{tls_broker.https_port}"
    options = {"url": url, "caFile": str(tls_broker.authority.cacertfile)}
    sink = parse_sink_options({**options, "routingKey": "for-spark"})
    assert publish_all(sink, iter([ROWS])).messages == 2
    reader = WarrenBatchReader(parse_source_options({**options, "queue": "for-spark"}))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    assert [value for batch in batches for value in batch["value"].to_pylist()] == [b"one", b"two"]


def test_a_broker_that_nobody_vouches_for_is_refused_at_once(tls_broker: TlsBroker) -> None:
    url = f"amqps://127.0.0.1:{tls_broker.amqps_port},https://127.0.0.1:{tls_broker.https_port}"
    with pytest.raises(InvalidOption, match=r"https.* is not trusted .*option caFile"):
        WarrenBatchReader(parse_source_options({"url": url, "queue": "any"})).partitions()
    sink = parse_sink_options({"url": url, "routingKey": "any"})
    with pytest.raises(InvalidOption, match=r"amqps.* is not trusted .*option caFile"):
        publish_all(sink, iter([ROWS]))
