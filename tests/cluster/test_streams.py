"""A stream of one node, used from another: read by its consumers, and asked for over HTTP."""

from __future__ import annotations

import http.client

from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import consume
from chunk_reader import records_of
from cluster.nodes import ClusterOfNodes

COUNT = 30


def declare_and_fill(first: BlockingChannel, second: BlockingChannel, name: str) -> None:
    first.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    for number in range(COUNT):
        second.basic_publish("", name, b"%d" % number)


def test_a_consumer_of_another_node_begins_where_it_asks_to(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    declare_and_fill(first, second, name)
    third.basic_qos(prefetch_count=7)
    inbox = consume(third, name, arguments={"x-stream-offset": 5})
    for number in range(5, COUNT):
        inbox.await_count(number - 4)
        third.basic_ack(inbox.messages[number - 5].method.delivery_tag)
    assert inbox.bodies == [b"%d" % number for number in range(5, COUNT)]
    offsets = [message.properties.headers["x-stream-offset"] for message in inbox.messages]
    assert offsets == list(range(5, COUNT))
    first.queue_delete(name)


def test_any_node_answers_about_a_stream(
    cluster: ClusterOfNodes, first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    declare_and_fill(first, second, name)
    for position, node in enumerate(cluster.nodes):
        api = node.api
        shown = api.must(api.get("warren", "streams", "/", name))
        assert (shown["first_offset"], shown["end_offset"]) == (0, COUNT)
        connection = http.client.HTTPConnection(*api.address, timeout=60)
        path = f"/api/warren/streams/%2F/{name}/records?from=3"
        connection.request("GET", path, headers=api.credentials)
        records = [*records_of(connection.getresponse().read())]
        connection.close()
        assert [r.offset for r in records if r.offset >= 3] == list(range(3, COUNT))
        group = ("warren", "streams", "/", name, "groups", "readers")
        assert api.must(api.put(*group, body={"offset": position}))["offset"] == position
    for node in cluster.nodes:
        assert node.api.must(node.api.get(*group))["offset"] == len(cluster.nodes) - 1
    first.queue_delete(name)
