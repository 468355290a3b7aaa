"""Mirrored streams on real nodes: what was confirmed is everywhere, under the same offset."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from hashlib import md5

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import Inbox, consume
from chunk_reader import records_of
from cluster.mirrored import MirroredCluster, publish_all, running_mirrored
from cluster.nodes import NodeProcess, eventually


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def declare(cluster: MirroredCluster, name: str) -> None:
    channel = cluster.nodes[0].channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    cluster.await_in_sync(name)
    assert cluster.master_node_of(name) is cluster.nodes[0]


def read_at(node: NodeProcess, name: str, query: str = "") -> tuple[dict[int, bytes], str]:
    """Records by offset, and which node has answered; nothing while nobody can."""
    connection = http.client.HTTPConnection(*node.api.address, timeout=60)
    path = f"/api/warren/streams/%2F/{name}/records{query}"
    connection.request("GET", path, headers=node.api.credentials)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    if response.status != http.HTTPStatus.OK:
        return {}, ""
    found = {record.offset: record.body for record in records_of(body)}
    return found, str(response.headers["x-warren-node"])


def segment_at(node: NodeProcess, folder: str) -> tuple[int, int]:
    """Of a short stream: the file's number on its disk, and how long it is."""
    (path,) = node.log_path.parent.rglob(f"{folder}/*.segment")
    return path.stat().st_ino, path.stat().st_size


def await_records(node: NodeProcess, name: str, bodies: list[bytes]) -> None:
    def is_all_there() -> bool:
        return read_at(node, name)[0] == dict(enumerate(bodies))

    eventually(is_all_there, f"{node.name} shows what was confirmed, and no more")


def confirming(node: NodeProcess) -> BlockingChannel:
    channel = node.channel()
    channel.confirm_delivery()
    return channel


def reading_from(offset: int, node: NodeProcess, name: str) -> Inbox:
    channel = node.channel()
    channel.basic_qos(prefetch_count=100)
    return consume(channel, name, arguments={"x-stream-offset": offset})


def numbered(first: int, end: int) -> list[bytes]:
    return [b"record %d" % number for number in range(first, end)]


def test_any_node_with_a_copy_answers_for_what_is_everywhere(mirrored: MirroredCluster) -> None:
    name = "mirrored-read"
    declare(mirrored, name)
    publisher = confirming(mirrored.nodes[1])
    publish_all(publisher, name, numbered(0, 10))
    for node in mirrored.nodes:

        def is_own_answer(node: NodeProcess = node) -> bool:
            publish_all(publisher, name, [b"more"])  # with it mirrors hear what was committed
            found, answered_by = read_at(node, name, "?from=2&to=10")
            right = {offset: body for offset, body in found.items() if 2 <= offset < 10}
            assert right == dict(enumerate(numbered(2, 10), 2))
            return answered_by == node.name

        eventually(is_own_answer, f"{node.name} answers itself")
    mirrored.nodes[0].channel().queue_delete(name)


def test_a_stream_survives_kill_9_of_its_master(mirrored: MirroredCluster) -> None:
    name = "mirrored-stream"
    declare(mirrored, name)
    bodies = numbered(0, 60)
    first, second, third = mirrored.nodes
    publisher = confirming(second)
    # One of them is where the stream will be led, so it is served across the cluster and then not.
    readers = {node.name: reading_from(5, node, name) for node in (second, third)}
    publish_all(publisher, name, bodies[:30])
    for inbox in readers.values():
        inbox.await_count(25)
    group = ("warren", "streams", "/", name, "groups", "readers")
    second.api.must(second.api.put(*group, body={"offset": 17}))
    first.kill()
    publish_all(publisher, name, bodies[30:])
    for inbox in readers.values():
        inbox.await_count(55)
        offsets = [message.properties.headers["x-stream-offset"] for message in inbox.messages]
        assert offsets == list(range(5, 60))
        assert inbox.bodies == bodies[5:]
    for node in mirrored.living:
        await_records(node, name, bodies)
        assert node.api.must(node.api.get(*group))["offset"] == 17
    # The one that was killed has missed half of it. It comes back, and is the only one left.
    folder = md5(name.encode(), usedforsecurity=False).hexdigest()
    before = segment_at(first, folder)
    mirrored.start_all()
    mirrored.await_in_sync(name)
    kept, size = segment_at(first, folder)
    assert kept == before[0], "it goes on in the file that it had"
    assert before[1] < size == segment_at(third, folder)[1]
    publish_all(publisher, name, [b"after"])
    second.kill()
    third.kill()
    await_records(first, name, [*bodies, b"after"])
    mirrored.start_all()
    mirrored.await_in_sync(name)
    for node in mirrored.nodes:
        await_records(node, name, [*bodies, b"after"])
    first.channel().queue_delete(name)
