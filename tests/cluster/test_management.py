"""The API of any node answers about all nodes, and acts on what any of them has."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.management_client import Api
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually

OpenIn = Callable[[NodeProcess], BlockingChannel]


@pytest.fixture
def apis(cluster: ClusterOfNodes) -> list[Api]:
    return [node.api for node in cluster.nodes]


@pytest.fixture
def vhost(apis: list[Api]) -> Iterator[str]:
    """A virtual host of the test's own."""
    name = f"m-{uuid.uuid4().hex[:8]}"
    apis[0].must(apis[0].put("vhosts", name))
    yield name
    apis[0].delete("vhosts", name)


@pytest.fixture
def open_in(vhost: str) -> Iterator[OpenIn]:
    """Opens channels in the test's virtual host, each on a connection of its own."""
    opened: list[pika.BlockingConnection] = []

    def open_in(node: NodeProcess) -> BlockingChannel:
        opened.append(node.connect(virtual_host=vhost))
        return opened[-1].channel()

    yield open_in
    for connection in opened:
        if connection.is_open:
            connection.close()


@pytest.fixture
def queues(apis: list[Api], vhost: str) -> list[str]:
    """Nine, in turn at each node: q0 at the first, q1 at the second ... with as many messages."""
    names = [f"q{i}" for i in range(9)]
    for i, name in enumerate(names):
        apis[i % 3].must(apis[i % 3].put("queues", vhost, name, body={"durable": True}))
        for _ in range(i):
            assert publish(apis[0], vhost, name) == {"routed": True}
    return names


def publish(api: Api, vhost: str, queue: str, payload: str = "m") -> Any:
    body = {"routing_key": queue, "properties": {}, "payload": payload,
            "payload_encoding": "string"}  # fmt: skip
    return api.must(api.post("exchanges", vhost, "amq.default", "publish", body=body))


def test_every_node_lists_the_queues_of_all_with_their_figures(
    apis: list[Api], vhost: str, queues: list[str]
) -> None:
    for api in apis:
        listed = api.must(api.get("queues", vhost))
        assert [queue["name"] for queue in listed] == queues
        assert [queue["messages"] for queue in listed] == list(range(9))
        homes = [f"n{i % 3 + 1}@localhost" for i in range(9)]
        assert [queue["node"] for queue in listed] == homes
        assert {queue["state"] for queue in listed} == {"running"}


def test_lists_are_sorted_filtered_and_paged_after_they_are_merged(
    apis: list[Api], vhost: str, queues: list[str]
) -> None:
    for api in apis:
        answer = api.get("queues", vhost, columns="name,messages", sort="messages",
                         sort_reverse="true", page=2, page_size=4)  # fmt: skip
        assert api.must(answer) == {
            "filtered_count": 9,
            "item_count": 4,
            "items": [{"name": f"q{i}", "messages": i} for i in (4, 3, 2, 1)],
            "page": 2,
            "page_count": 3,
            "page_size": 4,
            "total_count": 9,
        }
        page = api.must(api.get("queues", vhost, page=1, name="q[37]", use_regex="true"))
        assert (page["filtered_count"], page["total_count"]) == (2, 9)
        assert [(q["name"], q["messages_ready"]) for q in page["items"]] == [("q3", 3), ("q7", 7)]
        backwards = api.must(api.get("queues", vhost, columns="name", sort_reverse="true"))
        assert [queue["name"] for queue in backwards] == queues[::-1]
        by_view = api.must(api.get("queues", vhost, columns="name", sort="message_bytes"))
        assert [queue["name"] for queue in by_view] == queues
        assert api.get("queues", vhost, page=1, name="(", use_regex="true").status == 400
        refused = api.get("queues", vhost, page=4, page_size=4)
        text = "Page out of range, page: 4 page size: 4, len: 9"
        assert refused.refusal == (400, "page_out_of_range", text)


def test_long_lists_are_complete_and_in_order(apis: list[Api], vhost: str) -> None:
    names = [f"long-{i:03}" for i in range(180)]
    for i, name in enumerate(names):
        apis[i % 3].must(apis[i % 3].put("queues", vhost, name, body={}))
    for api in apis:
        assert [q["name"] for q in api.must(api.get("queues", vhost))] == names
        page = api.must(api.get("queues", vhost, page=2, page_size=100, columns="name"))
        assert [q["name"] for q in page["items"]] == names[100:]


def test_a_queue_is_shown_read_purged_and_deleted_from_any_node(
    apis: list[Api], vhost: str, queues: list[str]
) -> None:
    get = {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for api in apis:
        shown = api.must(api.get("queues", vhost, "q7"))
        assert (shown["messages"], shown["node"], shown["consumer_details"]) == (
            7,
            "n2@localhost",
            [],
        )
        got = api.must(api.post("queues", vhost, "q7", "get", body=get))
        assert [(m["payload"], m["message_count"]) for m in got] == [("m", 6), ("m", 5)]
        browsed = api.must(api.get("warren", "queues", vhost, "q7", "browse", limit=3))
        assert (len(browsed["items"]), browsed["messages_ready"]) == (3, 7)
        bindings = api.must(api.get("queues", vhost, "q7", "bindings"))
        assert [binding["routing_key"] for binding in bindings] == ["q7"]
    for i, api in enumerate(apis):
        name = f"q{(i + 1) % 3 + 3}"
        assert api.delete("queues", vhost, name, **{"if-empty": "true"}).status == 400
        assert api.delete("queues", vhost, name, "contents").status == 204
        assert api.must(api.get("queues", vhost, name, columns="messages")) == {"messages": 0}
        assert api.delete("queues", vhost, name, **{"if-empty": "true"}).status == 204
        missing = (404, "Object Not Found", "Not Found")
        assert [other.get("queues", vhost, name).refusal for other in apis] == [missing] * 3


def test_a_queue_counts_what_clients_at_other_nodes_do_with_it(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str
) -> None:
    first, second, third = (open_in(node) for node in cluster.nodes)
    first.queue_declare("q")
    second.confirm_delivery()
    for _ in range(5):
        second.basic_publish("", "q", b"m", mandatory=True)
    for _ in range(3):
        third.basic_ack(third.basic_get("q")[0].delivery_tag)
    second.queue_purge("q")
    assert second.basic_get("q")[0] is None
    expected = {"publish": 5, "get": 3, "deliver_get": 3, "ack": 3, "get_empty": 1}
    for api in apis:
        eventually(lambda api=api: counts_of(api, vhost) == expected, "all is counted")


def counts_of(api: Api, vhost: str) -> dict[str, int]:
    stats = api.must(api.get("queues", vhost, "q"))["message_stats"]
    return {name: count for name, count in stats.items() if isinstance(count, int) and count}


def test_a_queue_is_declared_at_the_node_asked_for(apis: list[Api], vhost: str) -> None:
    body = {"durable": True, "node": "n3@localhost"}
    assert apis[0].put("queues", vhost, "there", body=body).status == 201
    assert apis[1].put("queues", vhost, "there", body={"durable": True}).status == 204
    assert apis[1].must(apis[1].get("queues", vhost, "there"))["node"] == "n3@localhost"
    assert apis[1].put("queues", vhost, "there", body={"durable": False}).status == 400
    refused = apis[0].put("queues", vhost, "nowhere", body={"node": "n9@localhost"})
    text = "Node n9@localhost could not be contacted"
    assert refused.refusal == (400, "bad_request", text)


def test_connections_channels_and_consumers_of_all_nodes_are_shown_by_each(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str
) -> None:
    channels = [open_in(node) for node in cluster.nodes]
    channels[0].queue_declare("q")
    tags = [channel.basic_consume("q", lambda *_: None) for channel in channels]
    names = [node.name for node in cluster.nodes]
    for api in apis:
        connections = api.must(api.get("vhosts", vhost, "connections"))
        assert sorted(c["node"] for c in connections) == names
        assert {c["name"] for c in api.must(api.get("connections"))} >= {
            c["name"] for c in connections
        }
        listed = api.must(api.get("vhosts", vhost, "channels", sort="node"))
        assert [channel["node"] for channel in listed] == names
        consumers = api.must(api.get("consumers", vhost))
        assert sorted(consumer["consumer_tag"] for consumer in consumers) == sorted(tags)
        shown = api.must(api.get("queues", vhost, "q"))
        assert shown["consumers"] == 3
        details = shown["consumer_details"]
        assert sorted(consumer["consumer_tag"] for consumer in details) == sorted(tags)
        assert sorted(c["channel_details"]["node"] for c in details) == names
        for channel in listed:
            found = api.must(api.get("channels", channel["name"]))
            assert (found["node"], found["consumer_count"]) == (channel["node"], 1)
        for connection in connections:
            found = api.must(api.get("connections", connection["name"]))
            assert found["node"] == connection["node"]
            of_it = api.must(api.get("connections", connection["name"], "channels"))
            assert [channel["node"] for channel in of_it] == [connection["node"]]


def test_the_single_active_consumer_of_a_queue_is_known_to_all_nodes(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str
) -> None:
    arguments = {"x-single-active-consumer": True}
    channels = [open_in(node) for node in cluster.nodes]
    channels[0].queue_declare("q", arguments=arguments)
    for channel, tag in zip((*channels[1:], channels[0]), ("active", "next", "last"), strict=True):
        channel.basic_consume("q", lambda *_: None, consumer_tag=tag)
    activity = {"active": (True, "single_active"), "next": (False, "waiting"),
                "last": (False, "waiting")}  # fmt: skip
    for api in apis:
        shown = api.must(api.get("queues", vhost, "q"))
        assert shown["single_active_consumer_tag"] == "active"
        assert activity_of(shown["consumer_details"]) == activity
        assert activity_of(api.must(api.get("consumers", vhost))) == activity
        (channel,) = (c for c in shown["consumer_details"] if c["consumer_tag"] == "active")
        name = channel["channel_details"]["name"]
        details = api.must(api.get("channels", name))["consumer_details"]
        assert activity_of(details) == {"active": (True, "single_active")}
    channels[1].basic_cancel("active")
    for api in apis:
        eventually(
            lambda api=api: activity_of(api.must(api.get("consumers", vhost)))["next"][0],
            "the next one is active",
        )


def activity_of(consumers: list[dict[str, Any]]) -> dict[str, tuple[bool, str]]:
    return {c["consumer_tag"]: (c["active"], c["activity_status"]) for c in consumers}


def test_a_connection_is_closed_by_any_node(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str
) -> None:
    channel = open_in(cluster.nodes[0])
    (connection,) = apis[1].must(apis[1].get("vhosts", vhost, "connections"))
    assert apis[2].delete("connections", connection["name"]).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.connection.process_data_events(time_limit=30)
    assert closed.value.reply_code == 320
    name = connection["name"]
    eventually(lambda: apis[2].get("connections", name).status == 404, "it is shown no more")
    assert apis[2].delete("connections", name).status == 404


def test_all_connections_of_a_user_are_closed_by_any_node(
    cluster: ClusterOfNodes, apis: list[Api], vhost: str
) -> None:
    user = f"u-{vhost}"
    apis[0].must(apis[0].put("users", user, body={"password": "p", "tags": ""}))
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    apis[0].must(apis[0].put("permissions", vhost, user, body=everything))
    credentials = pika.PlainCredentials(user, "p")
    for node in cluster.nodes:
        node.connect(virtual_host=vhost, credentials=credentials)
    listed = apis[1].must(apis[1].get("connections", "username", user))
    assert sorted(c["node"] for c in listed) == [node.name for node in cluster.nodes]
    assert apis[2].delete("connections", "username", user).status == 204
    eventually(lambda: apis[0].get("connections", "username", user).body == [], "all are closed")
    apis[0].delete("users", user)


def test_totals_exchanges_and_virtual_hosts_are_those_of_all_nodes(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str, queues: list[str]
) -> None:
    for node in cluster.nodes:
        channel = open_in(node)
        channel.confirm_delivery()
        channel.queue_bind("q0", "amq.fanout")
        channel.basic_publish("amq.fanout", "", b"m")
    for api in apis:
        exchange = api.must(api.get("exchanges", vhost, "amq.fanout"))
        assert exchange["message_stats"]["publish_in"] == 3
        listed = api.must(api.get("exchanges", vhost, sort="message_stats.publish_in",
                                  sort_reverse="true", page=1))["items"]  # fmt: skip
        assert [x["message_stats"]["publish_in"] for x in listed[:2]] == [36, 3]
        shown = api.must(api.get("vhosts", vhost))
        assert shown["cluster_state"] == {node.name: "running" for node in cluster.nodes}
        assert (shown["messages"], shown["message_stats"]["publish"]) == (39, 39)
        (row,) = (v for v in api.must(api.get("vhosts")) if v["name"] == vhost)
        assert row["messages"] == 39
        overview = api.must(api.get("overview"))
        assert overview["queue_totals"]["messages"] >= 39
        assert overview["object_totals"]["queues"] >= 9
        assert overview["object_totals"]["connections"] >= 3
        assert {listener["node"] for listener in overview["listeners"]} == {
            node.name for node in cluster.nodes
        }
    overviews = [api.must(api.get("overview")) for api in apis]
    assert [overview["node"] for overview in overviews] == [node.name for node in cluster.nodes]
    assert {overview["cluster_name"] for overview in overviews} == {"default"}


def test_every_node_shows_all_nodes_and_their_memory(
    cluster: ClusterOfNodes, apis: list[Api]
) -> None:
    for api in apis:
        nodes = api.must(api.get("nodes"))
        assert [(n["name"], n["running"]) for n in nodes] == [(n.name, True) for n in cluster.nodes]
        pids = [api.must(api.get("nodes", node.name))["os_pid"] for node in cluster.nodes]
        assert pids == [node["os_pid"] for node in nodes]
        assert len(set(pids)) == 3
        memory = api.must(api.get("nodes", "n2@localhost", "memory"))["memory"]
        assert memory["total"]["rss"] > 0
        assert api.get("healthchecks", "node", "n3@localhost").body == {"status": "ok"}
        assert api.get("nodes", "n9@localhost").status == 404
        for check in ("node-is-mirror-sync-critical", "node-is-quorum-critical"):
            assert api.must(api.get("health", "checks", check)) == {"status": "ok"}


def test_a_user_sees_at_other_nodes_what_it_would_see_there(
    cluster: ClusterOfNodes, apis: list[Api], open_in: OpenIn, vhost: str, queues: list[str]
) -> None:
    user = f"u-{vhost}"
    apis[0].must(apis[0].put("users", user, body={"password": "p", "tags": "management"}))
    stranger = apis[2].as_user(user, "p")
    open_in(cluster.nodes[0])
    (connection,) = apis[1].must(apis[1].get("vhosts", vhost, "connections"))
    assert stranger.must(stranger.get("queues")) == []
    assert stranger.must(stranger.get("connections")) == []
    assert stranger.get("queues", vhost, "q0").status == 401
    assert stranger.get("connections", connection["name"]).status == 401
    assert stranger.delete("connections", connection["name"]).status == 401
    own = {"configure": "", "write": "", "read": ""}
    apis[0].must(apis[0].put("permissions", vhost, user, body=own))
    assert len(stranger.must(stranger.get("queues"))) == 9
    assert stranger.delete("queues", vhost, "q0", "contents").status == 401
    apis[0].delete("users", user)
