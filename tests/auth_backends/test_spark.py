"""The Spark source and sink with OAuth 2.0 tokens, as Spark's workers use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from auth_backends.conftest import BackedBroker, Start
from auth_backends.token_issuer import TokenIssuer
from pyspark_warren.batch_reader import WarrenBatchReader
from pyspark_warren.errors import NotAuthorised
from pyspark_warren.options import parse_sink_options, parse_source_options
from pyspark_warren.writer import publish_all

ROWS = pa.record_batch({"value": pa.array([b"one", b"two"])})


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenIssuer]:
    issuer = TokenIssuer(tmp_path_factory.mktemp("issuer"))
    yield issuer
    issuer.stop()


@pytest.fixture(scope="module")
def broker(start: Start, issuer: TokenIssuer) -> BackedBroker:
    return start("auth_backends.1 = oauth2\nauth_backends.2 = internal\n" + issuer.settings)


def options_of(broker: BackedBroker, **more: str) -> dict[str, str]:
    url = f"http://127.0.0.1:{broker.http_port},amqp://127.0.0.1:{broker.address.port}"
    return {"url": url, **more}


def bodies_of(options: dict[str, str]) -> list[bytes]:
    reader = WarrenBatchReader(parse_source_options({**options, "queue": "of-spark"}))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [body for batch in batches for body in batch["value"].to_pylist()]


def test_a_token_reads_and_publishes_and_a_file_is_read_again(
    broker: BackedBroker, issuer: TokenIssuer, tmp_path: Path
) -> None:
    with broker.connect("guest", "guest") as connection:
        arguments = {"x-queue-type": "stream"}
        connection.channel().queue_declare("of-spark", durable=True, arguments=arguments)
    good = issuer.token("tag:management", "read:*/of-*", "write:*/*")
    to_sink = {"routingKey": "of-spark"}
    sink = parse_sink_options({**options_of(broker, token=good), **to_sink})
    assert publish_all(sink, iter([ROWS])).messages == 2
    assert bodies_of(options_of(broker, token=good)) == [b"one", b"two"]
    file = tmp_path / "token"
    of_file = options_of(broker, tokenFile=str(file))
    file.write_text(good)
    assert bodies_of(of_file) == [b"one", b"two"]
    ended = issuer.token("tag:management", "read:*/*", "write:*/*", lasts_s=-60)
    file.write_text(ended)
    with pytest.raises(NotAuthorised, match="refuses a token access to 'of-spark'") as caught:
        bodies_of(of_file)
    assert ended not in str(caught.value)
    sink = parse_sink_options({**of_file, **to_sink})
    with pytest.raises(NotAuthorised, match=r"403 .*\(a token\)") as caught:
        publish_all(sink, iter([ROWS]))
    assert ended not in str(caught.value)
    file.write_text(good)
    assert publish_all(sink, iter([ROWS])).messages == 2, "the file is read for each connection"
