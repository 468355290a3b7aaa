"""A queue's home is killed: clients of other nodes are told, and what was durable comes back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.raw_client import RawClient
from cluster.conftest import OpenOn
from cluster.nodes import (
    ClusterOfNodes,
    NodeProcess,
    body_of,
    count_of,
    eventually,
    publish,
    running,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    """One that may be hurt."""
    with running(tmp_path_factory.mktemp("mortal")) as cluster:
        yield cluster


@pytest.fixture
def home(cluster: ClusterOfNodes) -> NodeProcess:
    """The first node, running: an earlier test may have killed it."""
    node = cluster.nodes[0]
    if node.has_ended:
        node.start()
    return node


def test_consumers_are_cancelled_publishes_nacked_and_the_queue_is_down(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True)
    consumer = open_on(cluster.nodes[2])
    cancelled: list[str] = []
    consumer.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = consumer.basic_consume(name, lambda *_: None)
    consumer.connection.process_data_events(0)

    home.kill()
    eventually(lambda: consumer.connection.process_data_events(0.05) or cancelled, "it is told")
    assert cancelled == [tag]
    with pytest.raises(pika.exceptions.NackError):
        publish(second, name, b"waits for the node until its session ends, and is nacked then")
    with pytest.raises(pika.exceptions.NackError):
        publish(second, name, b"nacked at once")

    down = (
        f"NOT_FOUND - home node 'n1@localhost' of durable queue '{name}' in vhost '/' "
        "is down or inaccessible"
    )
    for attempt in (
        lambda channel: channel.queue_declare(name, passive=True),
        lambda channel: channel.queue_declare(name, durable=True),
        lambda channel: channel.basic_get(name),
        lambda channel: channel.basic_consume(name, lambda *_: None),
        lambda channel: channel.queue_purge(name),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            attempt(open_on(cluster.nodes[1]))
        assert (refused.value.reply_code, refused.value.reply_text) == (404, down)

    other = open_on(cluster.nodes[1])
    other.queue_declare(f"{name}-elsewhere", durable=True)
    publish(second, f"{name}-elsewhere", b"the others go on")
    assert body_of(consumer, f"{name}-elsewhere") == b"the others go on"


def test_a_killed_node_is_known_to_be_dead_before_its_session_would_end(
    cluster: ClusterOfNodes, home: NodeProcess, second: BlockingChannel, name: str
) -> None:
    """Whoever had a link to it is refused now, and ends its session: topology goes on."""
    others = cluster.nodes[1:]
    eventually(lambda: all(map(_has_link_to_first, others)), "links stand")
    before = [len(node.log()) for node in others]
    home.kill()
    second.queue_declare(name)
    logs = [node.log()[start:] for node, start in zip(others, before, strict=True)]
    assert any("its session is ended node=n1@localhost" in log for log in logs)
    assert not any("nodes have not applied a change in time" in log for log in logs)


def test_a_node_that_is_killed_and_started_again_at_once_has_its_durable_queues_back(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    at_home = open_on(home)
    at_home.queue_declare(name, durable=True)
    at_home.queue_declare(f"{name}-transient")
    for i in range(20):
        publish(second, name, b"%d" % i)
    reader = open_on(cluster.nodes[2])
    assert body_of(reader, name, auto_ack=False) == b"0"

    home.kill()
    home.start()
    eventually(lambda: _count_or_none(open_on(cluster.nodes[2]), name) == 20, "all is back")
    publish(second, name, b"20")
    fresh = open_on(cluster.nodes[2])
    assert [body_of(fresh, name) for _ in range(21)] == [b"%d" % i for i in range(21)]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        fresh.queue_declare(f"{name}-transient", passive=True)
    assert refused.value.reply_text.startswith("NOT_FOUND - no queue")


def test_publishes_on_their_way_to_a_killed_node_are_all_answered(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True)
    confirmed: list[bytes] = []
    refused = 0
    for i in range(300):
        if i == 100:
            home.kill()
            home.launch()
        try:
            publish(second, name, b"%d" % i)
            confirmed.append(b"%d" % i)
        except pika.exceptions.NackError:
            refused += 1
    home.await_ready()
    assert len(confirmed) + refused == 300
    reader = open_on(cluster.nodes[2])
    there = [body_of(reader, name) for _ in range(count_of(reader, name))]
    assert set(confirmed) <= set(there), "what was confirmed is there"
    assert len(there) == len(set(there)), "and nothing twice"


def test_what_a_killed_node_of_consumers_had_goes_back_to_its_queue(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    """The home lives, the node that clients were connected to does not."""
    victim = cluster.nodes[2]
    at_home = open_on(home)
    at_home.queue_declare(name)
    for i in range(5):
        publish(second, name, b"%d" % i)
    assert body_of(victim.channel(), name, auto_ack=False) == b"0"
    exclusive = f"{name}-exclusive"
    victim.channel().queue_declare(exclusive, exclusive=True)
    victim.kill()
    eventually(lambda: count_of(at_home, name) == 5, "all is back")
    victim.start()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        open_on(victim).queue_declare(exclusive, passive=True)
    assert refused.value.reply_code == 404


def test_what_clients_elsewhere_had_when_a_node_stopped_comes_again_and_says_so(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True)
    publish(second, name, b"seen")
    publish(second, name, b"unseen")
    assert body_of(open_on(cluster.nodes[2]), name, auto_ack=False) == b"seen"
    os.kill(cluster.nodes[2].pid, signal.SIGSTOP)  # it cannot give back anything itself
    try:
        home.stop()
    finally:
        os.kill(cluster.nodes[2].pid, signal.SIGCONT)
    home.start()
    again = open_on(home)
    for body, is_redelivered in ((b"seen", True), (b"unseen", False)):
        method, _, found = again.basic_get(name, auto_ack=True)
        assert (found, method.redelivered) == (body, is_redelivered)


def test_a_node_that_stops_in_good_order_is_not_waited_for(
    cluster: ClusterOfNodes, home: NodeProcess, second: BlockingChannel, name: str
) -> None:
    before = len(cluster.nodes[1].log())
    home.stop()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        second.queue_declare(name, passive=True)
    other = second.connection.channel()
    other.queue_declare(name)
    other.queue_delete(name)
    assert "nodes have not applied a change in time" not in cluster.nodes[1].log()[before:]


def _has_link_to_first(node: NodeProcess) -> bool:
    """In its present life."""
    log = node.log()
    return log.rfind("connected to node node=n1@localhost") > log.rfind(
        "node is up node=n1@localhost"
    )


def _count_or_none(channel: BlockingChannel, name: str) -> int | None:
    try:
        return count_of(channel, name)
    except pika.exceptions.ChannelClosedByBroker:
        return None


def test_declaring_a_queue_whose_home_is_down_is_refused_though_nobody_waits_for_the_answer(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True)
    home.stop()
    with RawClient(cluster.nodes[1].address).open() as client:
        client.send(1, "queue.declare", queue=name, durable=True, nowait=True)
        close = client.expect(1, "channel.close", within_s=30)
    assert close.reply_code == 404
    assert close.reply_text.endswith("is down or inaccessible")


def test_a_transient_exchange_outlives_the_node_it_was_declared_at(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, second: BlockingChannel, name: str
) -> None:
    """As in RabbitMQ, where it stays until the last node has stopped."""
    other = open_on(cluster.nodes[1])
    other.queue_declare(name, durable=True)
    at_home = open_on(home)
    at_home.exchange_declare(name, "fanout")
    at_home.queue_bind(name, name)
    home.kill()
    home.start()
    second.basic_publish(name, "", b"m", mandatory=True)
    assert body_of(open_on(home), name) == b"m"


def test_an_auto_delete_exchange_goes_with_the_last_queue_it_was_bound_to(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, name: str
) -> None:
    other = open_on(cluster.nodes[1])
    other.exchange_declare(name, "fanout", auto_delete=True)
    other.exchange_declare(f"{name}-unused", "fanout", auto_delete=True)
    at_home = open_on(home)
    at_home.queue_declare(name)
    at_home.queue_bind(name, name)
    home.stop()
    eventually(lambda: not _has_exchange(open_on(cluster.nodes[2]), name), "it is gone")
    assert _has_exchange(other, f"{name}-unused"), "it has never been bound"


def test_a_queue_in_a_virtual_host_made_elsewhere_keeps_its_messages(
    cluster: ClusterOfNodes, home: NodeProcess, name: str
) -> None:
    """Its home has never had a client in that virtual host."""
    assert cluster.nodes[1].api.put("vhosts", name).status == 201
    channel = cluster.nodes[1].channel(virtual_host=name)
    channel.confirm_delivery()
    arguments = {"x-queue-master-locator": "min-masters"}
    for i in range(6):
        channel.queue_declare(f"{name}-{i}", durable=True, arguments=arguments)
        publish(channel, f"{name}-{i}", b"m")
    home.kill()
    home.start()
    again = cluster.nodes[2].channel(virtual_host=name)
    for i in range(6):
        assert count_of(again, f"{name}-{i}") == 1


def _has_exchange(channel: BlockingChannel, name: str) -> bool:
    try:
        channel.exchange_declare(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    return True


def test_others_list_a_killed_node_as_not_running_and_its_durable_queues_as_down(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True, arguments={"x-max-length": 7})
    open_on(home).queue_declare(f"{name}-transient")
    open_on(cluster.nodes[1]).queue_declare(f"{name}-elsewhere", durable=True)
    home.kill()
    down = {
        "arguments": {"x-max-length": 7}, "auto_delete": False, "durable": True,
        "exclusive": False, "name": name, "node": home.name, "state": "down", "type": "classic",
        "vhost": "/", "wanted_copies": 1, "synchronised_copies": 0,
    }  # fmt: skip
    for node in cluster.nodes[1:]:
        eventually(lambda node=node: shown_as(node, name) == down, "it is down")
        assert shown_as(node, f"{name}-transient") is None
        elsewhere = shown_as(node, f"{name}-elsewhere")
        assert elsewhere is not None
        assert (elsewhere["state"], elsewhere["messages"]) == ("running", 0)
        page = node.api.must(node.api.get("queues", page=1, name=name, sort="messages"))
        assert {queue["state"] for queue in page["items"]} == {"down", "running"}
        assert page["filtered_count"] == 2
        is_running = {n["name"]: n["running"] for n in node.api.must(node.api.get("nodes"))}
        assert is_running == {n.name: n is not home for n in cluster.nodes}
    # With its session everything that it may still be doing ends.
    for node in cluster.nodes[1:]:
        eventually(lambda node=node: is_down_for(node, name), "its session has ended")
        assert node.api.get("nodes", home.name).body == {
            "cluster_links": [], "name": home.name, "running": False, "type": "disc",
        }  # fmt: skip
        memory = node.api.get("nodes", home.name, "memory")
        assert (memory.status, memory.body) == (200, {"memory": "not_available"})
        health = node.api.get("healthchecks", "node", home.name)
        assert (health.status, health.body) == (503, {"status": "failed", "reason": "nodedown"})
        body = {"durable": True, "arguments": {"x-max-length": 7}}
        text = f"home node '{home.name}' of durable queue '{name}' in vhost '/' is down or "
        refusal = node.api.put("queues", "/", name, body=body).refusal
        assert refusal == (404, "not_found", text + "inaccessible")
        stop = node.api.post("warren", "nodes", home.name, "stop")
        assert stop.status == 404, "nobody stops in its place"
        listed = node.control.ok("-q list_queues --offline name messages state").out.splitlines()
        assert f"{name}\t\tdown" in listed
        online = node.control.ok("-q list_queues --online name").out.splitlines()
        assert f"{name}-elsewhere" in online
        assert name not in online
        local = node.control.ok("-q list_queues --local name").out.splitlines()
        assert (f"{name}-elsewhere" in local) == (node is cluster.nodes[1])


def shown_as(node: NodeProcess, name: str) -> dict[str, Any] | None:
    queues = node.api.must(node.api.get("queues", "/"))
    return next((queue for queue in queues if queue["name"] == name), None)


def is_down_for(node: NodeProcess, name: str) -> bool:
    return bool(node.api.get("queues", "/", name).status == 404)


def test_nobody_waits_long_for_a_node_that_is_silent(
    cluster: ClusterOfNodes, home: NodeProcess, open_on: OpenOn, name: str
) -> None:
    open_on(home).queue_declare(name, durable=True)
    open_on(cluster.nodes[1]).queue_declare(f"{name}-elsewhere", durable=True)
    os.kill(home.pid, signal.SIGSTOP)
    try:
        answers = [
            cluster.nodes[1].api.get(*path) for path in (["queues"], ["nodes"], ["overview"])
        ]
        assert [answer.status for answer in answers] == [200, 200, 200]
        state = {queue["name"]: queue["state"] for queue in answers[0].body}
        assert (state[name], state[f"{name}-elsewhere"]) == ("down", "running")
    finally:
        os.kill(home.pid, signal.SIGCONT)
    eventually(
        lambda: (shown_as(cluster.nodes[1], name) or {}).get("state") == "running",
        "it is heard again",
        within_s=60,
    )
