"""The Spark source and sink over TLS, as Spark's workers use them."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from certificates import Authority
from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.errors import BrokerUnavailable, InvalidOption, NotAuthorised
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.writer import publish_all
from tls.conftest import Open, TlsBroker
from tls.test_external import add_user

# Well below the failover timeout, and the time in which a head of HTTP has to come.
AT_ONCE_S = 8.0
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


def test_a_client_certificate_is_shown_and_is_the_login_of_the_sink(
    tls_broker: TlsBroker, authority: Authority, open_tls: Open
) -> None:
    channel = open_tls().channel()
    channel.queue_declare("of-certificates", durable=True)
    client = authority.issue("spark-job")
    add_user(tls_broker, "CN=spark-job")
    options = {
        "caFile": str(authority.cacertfile),
        "certFile": str(client.certfile), "keyFile": str(client.keyfile),
    }  # fmt: skip
    amqps = f"amqps://127.0.0.1:{tls_broker.amqps_port}"
    sink = parse_sink_options({"url": amqps, "routingKey": "of-certificates", **options})
    assert publish_all(sink, iter([ROWS])).messages == 2
    tls_broker.await_line("connection opened", 'user="CN=spark-job"')
    stranger = authority.issue("nobody-of-spark")
    other = {"certFile": str(stranger.certfile), "keyFile": str(stranger.keyfile)}
    sink = parse_sink_options({"url": amqps, "routingKey": "of-certificates", **options, **other})
    with pytest.raises(NotAuthorised, match=rf"403 .* \(certificate {stranger.certfile}\)"):
        publish_all(sink, iter([ROWS]))


def test_a_broker_that_wants_a_client_certificate_is_read_with_one(
    tmp_path: Path, authority: Authority
) -> None:
    broker = TlsBroker(tmp_path, authority, "ssl_options.fail_if_no_peer_cert = true\n")
    broker.start()
    try:
        url = f"amqps://127.0.0.1:{broker.amqps_port},https://127.0.0.1:{broker.https_port}"
        client = authority.issue("reader", password="")
        bare = {"url": url, "caFile": str(authority.cacertfile), "user": "guest"}
        shown = {**bare, "certFile": str(client.certfile), "keyFile": str(client.keyfile)}
        declared = {"queue": "wanted", "exchange": "amq.topic"}
        reader = WarrenBatchReader(parse_source_options({**shown, **declared}))
        assert list(reader.partitions()) == []
        sink = {**shown, "exchange": "amq.topic", "routingKey": "any"}
        assert publish_all(parse_sink_options(sink), iter([ROWS])).messages == 2
        found = [batch for part in reader.partitions() for batch in reader.read(part)]
        assert sum(batch.num_rows for batch in found) == 2
        without = parse_source_options({**bare, **declared, "failoverTimeout": "1"})
        with pytest.raises(BrokerUnavailable, match="client certificate, give option certFile"):
            WarrenBatchReader(without).partitions()
    finally:
        broker.stop()


def test_a_key_with_a_passphrase_is_refused_without_asking_for_it(
    tls_broker: TlsBroker, authority: Authority
) -> None:
    client = authority.issue("locked", password="secret")
    options = {
        "url": f"https://127.0.0.1:{tls_broker.https_port}", "queue": "any",
        "caFile": str(authority.cacertfile), "certFile": str(client.certfile),
        "keyFile": str(client.keyfile),
    }  # fmt: skip
    with pytest.raises(InvalidOption, match="options certFile, keyFile: "):
        WarrenBatchReader(parse_source_options(options)).partitions()


@pytest.mark.parametrize(
    ("scheme", "port", "message"),
    [
        ("https", "http_port", "does not speak TLS"),
        ("https", "amqp_port", "does not speak TLS"),
        ("http", "amqp_port", "speaks AMQP and not HTTP"),
    ],
)
def test_a_source_with_the_port_of_another_protocol_is_told_at_once(
    tls_broker: TlsBroker, scheme: str, port: str, message: str
) -> None:
    number = tls_broker.address.port if port == "amqp_port" else getattr(tls_broker, port)
    options = {"url": f"{scheme}://127.0.0.1:{number}", "queue": "any"}
    began_s = time.monotonic()
    with pytest.raises(InvalidOption, match=f"option url: .*{message}"):
        WarrenBatchReader(parse_source_options(options)).partitions()
    assert time.monotonic() - began_s < AT_ONCE_S


@pytest.mark.parametrize(
    ("scheme", "port", "message"),
    [
        ("amqps", "amqp_port", "does not speak TLS"),
        ("amqps", "http_port", "does not speak TLS"),
        ("amqp", "http_port", "speaks HTTP: the sink needs the port of AMQP"),
    ],
)
def test_a_sink_with_the_port_of_another_protocol_is_told_at_once(
    tls_broker: TlsBroker, scheme: str, port: str, message: str
) -> None:
    number = tls_broker.address.port if port == "amqp_port" else getattr(tls_broker, port)
    sink = parse_sink_options({"url": f"{scheme}://127.0.0.1:{number}", "routingKey": "any"})
    began_s = time.monotonic()
    with pytest.raises(InvalidOption, match=f"option url: .*{message}"):
        publish_all(sink, iter([ROWS]))
    assert time.monotonic() - began_s < AT_ONCE_S
