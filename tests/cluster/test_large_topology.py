"""More of everything than a stock etcd takes in one transaction: imported, and deleted at once."""

from __future__ import annotations

from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from cluster.nodes import ClusterOfNodes, eventually

BINDINGS = 2_500
# In etcd's default bounds a transaction has 128 operations.
AUTO_DELETE_BINDINGS = 150
QUEUES = 150


def definitions(name: str) -> dict[str, Any]:
    """An exchange that is bound to one queue many times."""
    exchange = {"vhost": "/", "type": "direct", "durable": True, "auto_delete": False}
    queue = {"vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    binding = {"vhost": "/", "destination": name, "destination_type": "queue", "arguments": {}}
    return {
        "exchanges": [
            {**exchange, "name": name, "internal": False, "arguments": {}},
        ],
        "queues": [{**queue, "name": name}],
        "bindings": [{**binding, "source": name, "routing_key": f"{i}"} for i in range(BINDINGS)],
    }


def test_many_bindings_are_imported_and_go_with_their_queue(
    cluster: ClusterOfNodes, second: BlockingChannel, name: str
) -> None:
    answer = cluster.nodes[0].api.post("definitions", body=definitions(name))
    assert answer.status in (200, 201, 204), answer.body
    second.exchange_declare(f"{name}-auto", auto_delete=True)
    for number in range(AUTO_DELETE_BINDINGS):
        second.queue_bind(name, f"{name}-auto", f"{number}")
    bound = cluster.nodes[2].ask(f"/api/queues/%2F/{name}/bindings")
    assert len(bound) == BINDINGS + AUTO_DELETE_BINDINGS + 1
    second.queue_delete(name)
    assert cluster.nodes[2].ask(f"/api/exchanges/%2F/{name}/bindings/source") == []
    names = {exchange["name"] for exchange in cluster.nodes[2].ask("/api/exchanges/%2F")}
    assert name in names
    assert f"{name}-auto" not in names, "it went with its last binding"
    second.exchange_delete(name)


def test_a_connection_takes_many_exclusive_queues_with_it(
    cluster: ClusterOfNodes, first: BlockingChannel, name: str
) -> None:
    connection = cluster.nodes[1].connect()
    channel = connection.channel()
    for number in range(QUEUES):
        channel.queue_declare(f"{name}-{number}", exclusive=True)
    connection.close()

    def are_gone() -> bool:
        left = {queue["name"] for queue in cluster.nodes[0].ask("/api/queues/%2F")}
        return not any(queue.startswith(name) for queue in left)

    eventually(are_gone, "all are gone")
