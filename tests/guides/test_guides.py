"""What the guides tell people to run. Of the README: tests/cluster/test_readme.py, and with Spark
tests/spark/test_guides.py; that nothing is left out: tests/unit/test_documents.py."""

from __future__ import annotations

import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pika
import pyarrow as pa
import pytest

from broker_process import free_port
from documents import ROOT, Reader, blocks_of
from etcd_process import EtcdMember
from warren.testing import InProcessBroker


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.close()


def test_operations(reader: Reader, tmp_path: Path) -> None:
    etcd = EtcdMember("m1", {"m1": free_port()}, tmp_path)
    etcd.start()
    try:
        etcd.wait_ready()
        reader.replaced = {
            "10.0.0.1": "127.0.0.1",
            "25672": str(free_port()),
            "/var/lib/warren": str(tmp_path / "n1"),
            "etcd1:2379,etcd2:2379,etcd3:2379": etcd.endpoint,
        }
        for block in blocks_of(ROOT / "docs" / "OPERATIONS.md"):
            if block.section == "warrenctl":
                port = reader.ports["5672"]
                with pika.BlockingConnection(pika.ConnectionParameters(port=port)) as connection:
                    connection.channel().queue_declare("tmp.1")
            reader.do(block)
        assert "list_queues" in reader.outputs[-2]
        assert "Plugin rabbitmq_management is enabled" in reader.outputs[-1]
        reader.close()
    finally:
        etcd.stop()


def test_tests_of_other_projects(reader: Reader) -> None:
    for block in blocks_of(ROOT / "docs" / "TESTING.md"):
        reader.do(block)
    assert "4 passed" in reader.outputs[-1]


def test_telemetry(reader: Reader, warren_broker: InProcessBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(warren_broker.url)) as connection:
        reader.names["channel"] = channel = connection.channel()
        for block in blocks_of(ROOT / "docs" / "TELEMETRY.md"):
            reader.do(block)
        assert channel.queue_declare("telemetry", passive=True).method.queue == "telemetry"


def test_streams(reader: Reader, warren_broker: InProcessBroker) -> None:
    """Super streams are declared and consumed, and a chunk of a stream is read with Arrow."""
    reader.ports = {"5672": warren_broker.port, "15672": warren_broker.http_port}
    with pika.BlockingConnection(pika.URLParameters(warren_broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        for body in (b"one", b"two"):
            channel.basic_publish("", "s", body)
    data = fetched(f"{warren_broker.http_url}/api/warren/streams/%2F/s/records?from=0&to=1")
    first, records, routes, blocks = struct.unpack_from("<Q8xIII", data, 8)
    bodies_bytes, chunk_bytes = struct.unpack_from("<II", data, 44)
    reader.names |= {
        "pa": pa, "np": np, "data": data, "buffer": pa.py_buffer(data), "first": first,
        "records": records, "ends_at": 64, "bodies_at": chunk_bytes - padded(bodies_bytes),
        "bodies_bytes": bodies_bytes, "routes_at": 64 + padded(4 * (records + 1)),
        "keys_of_routes": ["s"] * routes,
    }  # fmt: skip
    assert blocks == 1
    for block in blocks_of(ROOT / "docs" / "STREAMS.md"):
        reader.do(block)
    assert "orders-2" in reader.outputs[0]
    assert reader.names["value"].to_pylist()[0] == b"one"
    assert reader.names["routing_key"].to_pylist()[0] == "s"
    assert reader.names["offset"].to_pylist()[0] == 0


def padded(size: int) -> int:
    return -(-size // 8) * 8


def fetched(url: str) -> bytes:
    passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
    passwords.add_password(None, url, "guest", "guest", is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(passwords))
    with opener.open(url, timeout=60) as answer:
        return bytes(answer.read())
