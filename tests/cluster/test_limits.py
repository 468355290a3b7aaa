"""Limits of virtual hosts and users count what there is at all nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection

from cluster.nodes import ClusterOfNodes, NodeProcess, eventually


@pytest.fixture
def user(cluster: ClusterOfNodes, name: str) -> Iterator[str]:
    """With a virtual host of the same name, where it may do everything."""
    api = cluster.nodes[0].api
    assert api.put("vhosts", name).status == 201
    assert api.put("users", name, body={"password": name, "tags": ""}).status == 201
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    assert api.put("permissions", name, name, body=everything).status == 201
    yield name
    api.delete("users", name)
    api.delete("vhosts", name)


def connect(node: NodeProcess, user: str) -> BlockingConnection:
    credentials = pika.PlainCredentials(user, user)
    return node.connect(virtual_host=user, credentials=credentials)


def refusal_of(node: NodeProcess, user: str) -> str | None:
    """None if it was let in; it has gone again by then."""
    try:
        connection = connect(node, user)
    except pika.exceptions.AMQPConnectionError as refused:
        cause = refused.args[0] if refused.args else refused
        return str(getattr(cause, "exception", cause)) or repr(refused)
    connection.close()
    return None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("vhost-limits", "access to vhost '{0}' refused for user '{0}': connection limit (2)"),
        ("user-limits", "connection refused for user '{0}': user connection limit (2)"),
    ],
)
def test_connections_are_counted_over_all_nodes(
    cluster: ClusterOfNodes, user: str, path: str, expected: str
) -> None:
    one, two, three = cluster.nodes
    put = one.api.put(path, user, "max-connections", body={"value": 2})
    assert put.status in (201, 204)
    open_at = [connect(one, user), connect(two, user)]
    refusal = eventually(lambda: refusal_of(three, user), "the third node counts the others'")
    assert f"{expected.format(user)} is reached" in refusal
    eventually(lambda: refusal_of(one, user), "and so does the first")
    open_at[1].close()
    eventually(lambda: refusal_of(three, user) is None, "there is room again")
    open_at[0].close()


def test_channels_of_a_user_are_counted_over_all_nodes(cluster: ClusterOfNodes, user: str) -> None:
    one, two, _ = cluster.nodes
    assert one.api.put("user-limits", user, "max-channels", body={"value": 3}).status == 204
    first = connect(one, user)
    for _ in range(2):
        first.channel()

    def third_and_fourth() -> str | None:
        second = connect(two, user)
        try:
            for _ in range(2):
                second.channel()
        except pika.exceptions.ConnectionClosedByBroker as refused:
            return str(refused.reply_text)
        second.close()
        return None

    text = eventually(third_and_fourth, "the other node's channels count")
    assert "has reached the maximum allowed user limit of (3)" in text
    first.close()


def test_queues_of_a_vhost_are_counted_over_all_nodes(cluster: ClusterOfNodes, user: str) -> None:
    one, two, three = cluster.nodes
    assert one.api.put("vhost-limits", user, "max-queues", body={"value": 2}).status == 204
    for node in (one, two):
        connection = connect(node, user)
        connection.channel().queue_declare(f"at-{node.name}", durable=True)
        connection.close()
    connection = connect(three, user)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().queue_declare("one too many", durable=True)
    assert "queue limit in vhost" in refused.value.reply_text
    connection.channel().queue_declare(f"at-{one.name}", durable=True)
    connection.close()
