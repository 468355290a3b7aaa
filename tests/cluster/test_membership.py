"""Who belongs to a cluster: how it looks, nodes that are forgotten, reset and out of service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.conftest import OpenOn
from cluster.nodes import ClusterOfNodes, NodeProcess, body_of, eventually, publish, running
from cluster.test_alarms import Watched, alarms_at

WARREN = Path(sys.executable).with_name("warren")
READY = "node is ready"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    """One whose nodes come and go."""
    with running(tmp_path_factory.mktemp("members")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _whole(cluster: ClusterOfNodes) -> None:
    """All nodes are there, and in service, whatever the test before has done."""
    for node in cluster.nodes:
        if node.has_ended:
            node.start()
        node.control.ok("revive")
    for node in cluster.nodes:
        node.control.ok("await_online_nodes 3")
        eventually(lambda node=node: not any_drained(node), "all are in service")


def status_at(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.control.ok("cluster_status --formatter json").out)
    return found


def any_drained(node: NodeProcess) -> bool:
    return "marked for maintenance" in status_at(node)["maintenance_status"].values()


def master_node_of(cluster: ClusterOfNodes, queue: str) -> str:
    """The one node that all who know it name."""
    told = {node.api.get("queues", "/", queue).body.get("node") for node in cluster.nodes}
    (home,) = told - {None}
    return str(home)


def locator(kind: str) -> dict[str, object]:
    return {"x-queue-master-locator": kind}


def test_every_node_knows_the_whole_cluster(cluster: ClusterOfNodes) -> None:
    names = [node.name for node in cluster.nodes]
    for node in cluster.nodes:
        found = status_at(node)
        assert found["disk_nodes"] == found["running_nodes"] == names
        assert (found["ram_nodes"], found["partitions"], found["alarms"]) == ([], {}, [])
        assert list(found["versions"]) == list(found["maintenance_status"]) == names
        for other in cluster.nodes:
            ports = {each["protocol"]: each["port"] for each in found["listeners"][other.name]}
            assert (ports["amqp"], ports["http"]) == (other.address.port, other.http_port)
            assert "clustering" in ports
    text = cluster.nodes[1].control.ok("cluster_status").out
    titles = [line for line in text.splitlines() if line and not set(line) & set(":,@(")]
    assert titles == [
        "Basics",
        "Disk Nodes",
        "Running Nodes",
        "Versions",
        "Maintenance status",
        "Alarms",
        "Network Partitions",
        "Listeners",
        "Feature flags",
    ]


def test_a_name_given_to_the_cluster_is_known_at_all_nodes(cluster: ClusterOfNodes) -> None:
    cluster.nodes[0].control.ok("set_cluster_name warren-of-three")
    for node in cluster.nodes:
        assert status_at(node)["cluster_name"] == "warren-of-three"


def test_new_queues_go_where_the_fewest_are(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """4-22, 4-25: by argument and by policy; bindings do not count; client-local otherwise."""
    one, _, three = cluster.nodes
    for node, count in zip(cluster.nodes, (15, 8, 1), strict=True):
        channel = open_on(node)
        for number in range(count):
            queue = f"{name}-{node.name}-{number}"
            channel.queue_declare(queue, durable=True)
            assert master_node_of(cluster, queue) == node.name, "where its client is"
    channel = open_on(three)
    for number in range(20):
        channel.queue_bind(f"{name}-{three.name}-0", "amq.direct", f"key-{number}")

    channel = open_on(one)
    channel.queue_declare(f"{name}-by-argument", durable=True, arguments=locator("min-masters"))
    assert master_node_of(cluster, f"{name}-by-argument") == three.name
    definition = {"queue-master-locator": "min-masters"}
    body = {"pattern": f"^{name}-by-policy", "definition": definition, "apply-to": "queues"}
    assert one.api.put("policies", "/", name, body=body).status == 201
    channel.queue_declare(f"{name}-by-policy", durable=True)
    assert master_node_of(cluster, f"{name}-by-policy") == three.name
    one.api.delete("policies", "/", name)

    channel.queue_declare(f"{name}-random", durable=True, arguments=locator("random"))
    assert master_node_of(cluster, f"{name}-random") in {node.name for node in cluster.nodes}


def test_a_drained_node_has_no_clients_and_gets_no_queues(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """4-26: skipped by min-masters and random; what it has is served to clients elsewhere."""
    drained, _, third = cluster.nodes
    channel = open_on(drained)
    channel.queue_declare(name, durable=True)
    drained.control.ok("drain")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.connection.process_data_events(30)
    assert closed.value.reply_text == "CONNECTION_FORCED - Node was put into maintenance mode"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        drained.connect()

    eventually(lambda: any_drained(third), "the others know")
    assert status_at(third)["maintenance_status"][drained.name] == "marked for maintenance"
    elsewhere = open_on(third, confirms=True)
    for number in range(6):
        for kind in ("min-masters", "random"):
            queue = f"{name}-{kind}-{number}"
            elsewhere.queue_declare(queue, durable=True, arguments=locator(kind))
            assert master_node_of(cluster, queue) != drained.name
    publish(elsewhere, name, b"still served")
    assert body_of(elsewhere, name) == b"still served"

    drained.control.ok("revive")
    open_on(drained).queue_declare(name, durable=True)
    eventually(lambda: not any_drained(third), "the others know")


def test_with_all_nodes_drained_a_queue_stays_where_it_is_declared(
    cluster: ClusterOfNodes, name: str
) -> None:
    """4-26; clients there are none, but the API still declares."""
    for node in cluster.nodes:
        node.control.ok("drain")
    second = cluster.nodes[1]
    eventually(
        lambda: list(status_at(second)["maintenance_status"].values()).count(
            "marked for maintenance"
        ) == 3,
        "all are drained",
    )  # fmt: skip
    body = {"durable": True, "arguments": locator("min-masters")}
    assert second.api.put("queues", "/", name, body=body).status == 201
    assert master_node_of(cluster, name) == second.name


def test_an_alarm_ends_with_its_node_and_is_known_to_whoever_comes_later(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    one, two, three = cluster.nodes
    open_on(one).queue_declare(name)
    two.stop()
    three.control.ok("set_vm_memory_high_watermark 0")
    publisher = Watched(open_on(one))
    eventually(lambda: alarms_at(one) == {(three.name, "memory")}, "it is known")
    publisher.publish(name)
    publisher.eventually_told(["low on memory"])

    two.start()
    assert alarms_at(two) == {(three.name, "memory")}, "from the beginning"
    assert status_at(two)["alarms"] == [f"Memory alarm on node {three.name}"]
    three.kill()
    publisher.eventually_told(["low on memory", "unblocked"])
    eventually(lambda: alarms_at(two) == set(), "nobody has one any more")


def test_an_alarm_that_cannot_be_told_is_told_when_etcd_is_there_again(
    cluster: ClusterOfNodes,
) -> None:
    one, two, _ = cluster.nodes
    etcd = cluster.etcd.members[0].process
    assert etcd is not None
    etcd.send_signal(signal.SIGSTOP)
    try:
        one.control.ok("set_vm_memory_high_watermark 0")
        eventually(lambda: alarms_at(one) == {(one.name, "memory")}, "it is set")
    finally:
        etcd.send_signal(signal.SIGCONT)
    eventually(lambda: alarms_at(two) == {(one.name, "memory")}, "the others know")
    one.control.ok("set_vm_memory_high_watermark 0.9")
    eventually(lambda: alarms_at(two) == set(), "and know that it is over")


def test_a_forgotten_node_is_gone_with_its_queues_and_must_be_reset(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """6-06, 6-07, 6-08: who can be forgotten, what goes along, and what it takes to come back."""
    one, two, three = cluster.nodes
    at_three = open_on(three)
    at_three.queue_declare(name, durable=True)
    at_three.exchange_declare(f"{name}-auto", auto_delete=True, durable=True)
    at_three.queue_bind(name, f"{name}-auto", "key")

    for node, code, said in (
        ("nobody@nowhere", 69, "{:not_a_cluster_node, 'The node selected is not in the cluster.'}"),
        (three.name, 69, f"RabbitMQ on node {three.name} must be stopped before it can be removed"),
        (one.name, 69, f"RabbitMQ on node {one.name} must be stopped before it can be removed"),
        (f"--offline {three.name}", 64, "if one of them runs, ask it without --offline"),
    ):
        refused = one.control(f"forget_cluster_node {node}")
        assert (refused.code, said in refused.err) == (code, True), refused

    os.kill(three.pid, signal.SIGSTOP)
    eventually(lambda: three.name not in status_at(two)["running_nodes"], "it is taken for dead")
    assert three.name in status_at(two)["disk_nodes"]
    shown = {each["name"]: each["running"] for each in two.api.get("nodes").body}
    assert shown == {one.name: True, two.name: True, three.name: False}
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as down:
        open_on(two).queue_declare(name, durable=True)
    assert "is down or inaccessible" in down.value.reply_text

    asked = one.control(f"forget_cluster_node {three.name}")
    assert (asked.code, "Give --yes" in asked.err) == (64, True)
    tried = one.control.ok(f"forget_cluster_node --dry-run {three.name}")
    for said in (asked.err, tried.out):
        assert f"Lost for good with node {three.name}" in said
        assert f"classic '{name}' in vhost '/'" in said
    assert three.name in status_at(two)["disk_nodes"]
    one.control.ok(f"forget_cluster_node --yes {three.name}")
    assert three.name not in status_at(two)["disk_nodes"]
    assert {each["name"] for each in two.api.get("nodes").body} == {one.name, two.name}
    assert open_on(two).queue_declare(name, durable=True).method.message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as gone:
        open_on(one).exchange_declare(f"{name}-auto", passive=True)
    assert gone.value.reply_code == 404

    os.kill(three.pid, signal.SIGCONT)
    three.await_end()
    assert "node was removed from the cluster while it was down; stopping" in three.log()
    three.launch()
    assert three.await_end() == 69
    assert "is not a member of cluster 'default' any more" in three.log()
    command = [WARREN, "reset", "--force", "--data-dir", three.data_dir]
    subprocess.run(command, check=True, timeout=60)
    three.start()
    eventually(lambda: three.name in status_at(one)["running_nodes"], "it is a new member")
    publish(open_on(three, confirms=True), name, b"and works")


def test_a_node_that_is_reset_begins_anew(
    cluster: ClusterOfNodes, open_on: OpenOn, name: str
) -> None:
    """6-06."""
    one, two, _ = cluster.nodes
    channel = open_on(two, confirms=True)
    channel.queue_declare(name, durable=True)
    publish(channel, name, b"lost with the node's data")
    tried = one.control.ok(f"-n {two.name} reset --dry-run").out
    assert f"classic '{name}' in vhost '/': 1 messages" in tried
    starts = two.log().count(READY)
    two.control.ok("reset --yes")
    eventually(lambda: two.log().count(READY) > starts, "it has begun anew")
    eventually(lambda: two.name in status_at(one)["running_nodes"], "it is a member again")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as gone:
        open_on(one).queue_declare(name, passive=True)
    assert gone.value.reply_text.startswith("NOT_FOUND - no queue")
    assert open_on(two).queue_declare(name, durable=True).method.message_count == 0


def test_verbs_that_have_nothing_to_do_here_say_what_to_do_instead(cluster: ClusterOfNodes) -> None:
    """6-09, in a cluster that nobody has to force."""
    for verb, says in (
        ("join_cluster n1@localhost", "warren server --metadata etcd://"),
        ("stop_app", "warrenctl drain"),
        ("start_app", "warrenctl stop"),
        ("force_boot", "nodes start in any order"),
    ):
        done = cluster.nodes[0].control(verb)
        assert (done.code, says in done.err) == (69, True), done
