"""Mirrored streams on real nodes: what was confirmed is everywhere, under the same offset."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import consume
from chunk_reader import records_of
from cluster.mirrored import MirroredCluster, publish_all, running_mirrored
from cluster.nodes import NodeProcess, eventually


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    with running_mirrored(directory) as cluster:
        yield cluster


def declare(cluster: MirroredCluster, name: str) -> None:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    cluster.await_in_sync(name)


def records_at(node: NodeProcess, name: str, query: str = "") -> dict[int, bytes]:
    connection = http.client.HTTPConnection(*node.api.address, timeout=60)
    path = f"/api/warren/streams/%2F/{name}/records{query}"
    connection.request("GET", path, headers=node.api.credentials)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    assert response.status == 200, body
    return {record.offset: record.body for record in records_of(body)}


def shown_at(node: NodeProcess, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = node.api.must(node.api.get("warren", "streams", "/", name))
    return shown


def confirming(node: NodeProcess) -> BlockingChannel:
    channel = node.channel()
    channel.confirm_delivery()
    return channel


def test_a_stream_survives_kill_9_of_its_master(mirrored: MirroredCluster) -> None:
    name = "mirrored-stream"
    declare(mirrored, name)
    bodies = [b"record %d" % number for number in range(60)]
    master, other = mirrored.nodes[0], mirrored.nodes[1]
    publisher, reader = confirming(other), mirrored.nodes[2].channel()
    reader.basic_qos(prefetch_count=100)
    inbox = consume(reader, name, arguments={"x-stream-offset": 5})
    publish_all(publisher, name, bodies[:30])
    inbox.await_count(25)
    group = ("warren", "streams", "/", name, "groups", "readers")
    other.api.must(other.api.put(*group, body={"offset": 17}))
    master.kill()
    publish_all(publisher, name, bodies[30:])
    inbox.await_count(55)
    offsets = [message.properties.headers["x-stream-offset"] for message in inbox.messages]
    assert offsets == list(range(5, 60))
    assert inbox.bodies == bodies[5:]
    for node in mirrored.living:
        assert records_at(node, name) == dict(enumerate(bodies))
        assert node.api.must(node.api.get(*group))["offset"] == 17
    # The one that was killed has missed half of it, and comes back.
    mirrored.start_all()
    mirrored.await_in_sync(name)
    publish_all(publisher, name, [b"after"])
    for node in mirrored.nodes[1:]:
        node.kill()
    mirrored.nodes[1].launch()
    mirrored.nodes[1].await_ready()
    eventually(lambda: mirrored.home_of(name) is not None, "somebody leads", 30)
    eventually(lambda: shown_at(mirrored.nodes[0], name)["end_offset"] == 61, "all is there", 30)
    assert records_at(mirrored.nodes[0], name) == dict(enumerate([*bodies, b"after"]))
    mirrored.start_all()
