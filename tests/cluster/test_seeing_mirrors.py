"""Mirrored queues as an operator sees them, at a cluster that is left as it was found."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from acceptance.management_client import Api
from acceptance.test_prometheus import Scraped, ask
from broker_process import Address
from cluster.conftest import OpenOn
from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, publish

NAMES = ["n1@localhost", "n2@localhost", "n3@localhost"]


@pytest.fixture
def prefix(cluster: ClusterOfNodes) -> Iterator[str]:
    """Of queues that are mirrored everywhere."""
    prefix = f"ha-{uuid.uuid4().hex[:8]}"
    set_policy(cluster.nodes[0].api, prefix, {"ha-mode": "all"})
    yield prefix
    api = cluster.nodes[0].api
    for queue in api.must(api.get("queues", "/")):
        if queue["name"].startswith(prefix):
            api.delete("queues", "/", queue["name"])
    api.delete("policies", "/", prefix)


def set_policy(api: Api, prefix: str, definition: dict[str, Any]) -> None:
    body = {"pattern": f"^{prefix}", "definition": definition}
    api.must(api.put("policies", "/", prefix, body=body))


def shown(node: NodeProcess, name: str) -> dict[str, Any]:
    queue: dict[str, Any] = node.api.must(node.api.get("queues", "/", name))
    return queue


def has_mirrors(node: NodeProcess, name: str, count: int, synchronised: int) -> bool:
    queue = shown(node, name)
    mirrors, in_sync = queue.get("slave_nodes", ()), queue.get("synchronised_slave_nodes", ())
    return (len(mirrors), len(in_sync)) == (count, synchronised)


def declare(node: NodeProcess, name: str) -> None:
    node.api.must(node.api.put("queues", "/", name, body={"durable": True}))


def test_each_node_tells_the_story_of_its_copy(cluster: ClusterOfNodes, prefix: str) -> None:
    """What it heard and decided; of a queue that does not exist there is no story."""
    name = f"{prefix}-told"
    declare(cluster.nodes[1], name)
    eventually(lambda: has_mirrors(cluster.nodes[0], name, 2, 2), "both mirrors are in sync")
    told: dict[str, list[str]] = {}
    for node in cluster.nodes:
        story = node.api.must(node.api.get("warren", "queues", "/", name, "story"))
        told[story["node"]] = [entry["text"] for entry in story["entries"]]
    assert "leads" in told[NAMES[1]]
    assert "joins its group" in told[NAMES[0]]
    assert "joins its group" in told[NAMES[2]]
    assert all(told[name][0].startswith("record") for name in NAMES)
    assert cluster.nodes[0].api.get("warren", "queues", "/", "nosuch", "story").status == 404


def test_every_node_shows_where_a_queue_is_led_and_mirrored(
    cluster: ClusterOfNodes, prefix: str
) -> None:
    """9-01, 9-02."""
    name = f"{prefix}-q"
    declare(cluster.nodes[1], name)
    for node in cluster.nodes:
        eventually(lambda node=node: has_mirrors(node, name, 2, 2), "both mirrors are in sync")
        queue = shown(node, name)
        assert queue["node"] == NAMES[1]
        assert set(queue["slave_nodes"]) == {NAMES[0], NAMES[2]}
        assert set(queue["synchronised_slave_nodes"]) == {NAMES[0], NAMES[2]}
        assert queue["recoverable_slaves"] == queue["slave_nodes"]
    columns = "name pid slave_pids synchronised_mirror_pids"
    (line,) = [
        line
        for line in cluster.nodes[0].control.ok(f"list_queues -q {columns}").out.splitlines()
        if line.startswith(name)
    ]
    _, pid, mirrors, synchronised = line.split("\t")
    assert pid.startswith("<n2@localhost.")
    for pids in (mirrors, synchronised):
        assert re.fullmatch(r"\[<n[13]@localhost\.[\d.]+>, <n[13]@localhost\.[\d.]+>\]", pids)


def test_9_03_every_node_shows_all_consumers_of_a_mirrored_queue(
    cluster: ClusterOfNodes, prefix: str, open_on: OpenOn
) -> None:
    name = f"{prefix}-q"
    declare(cluster.nodes[0], name)
    for node in cluster.nodes:
        open_on(node).basic_consume(name, lambda *_: None, consumer_tag=f"of {node.name}")

    def tags(node: NodeProcess) -> set[str]:
        return {c["consumer_tag"] for c in shown(node, name)["consumer_details"]}

    everybody = {f"of {node.name}" for node in cluster.nodes}
    for node in cluster.nodes:
        eventually(lambda node=node: tags(node) == everybody, "all consumers are listed")
        assert shown(node, name)["consumers"] == len(NAMES)


def test_a_queue_that_is_not_mirrored_says_nothing_of_mirrors(
    cluster: ClusterOfNodes, name: str
) -> None:
    declare(cluster.nodes[0], name)
    queue = shown(cluster.nodes[2], name)
    assert "slave_nodes" not in queue
    assert "synchronised_slave_nodes" not in queue
    assert queue["recoverable_slaves"] is None
    cluster.nodes[0].api.delete("queues", "/", name)


def test_a_node_that_alone_has_what_is_in_a_queue_is_critical_until_that_is_consumed(
    cluster: ClusterOfNodes, prefix: str, open_on: OpenOn
) -> None:
    """9-06, 6-15."""
    home, name = cluster.nodes[0], f"{prefix}-q"
    set_policy(home.api, prefix, {"ha-mode": "exactly", "ha-params": 1})
    declare(home, name)
    channel = open_on(home, confirms=True)
    publish(channel, name, b"a message that was there before the mirrors")
    set_policy(home.api, prefix, {"ha-mode": "all"})
    eventually(lambda: has_mirrors(home, name, 2, 0), "mirrors are there, and lack the message")
    answer = home.api.get("health", "checks", "node-is-mirror-sync-critical")
    assert (answer.status, answer.body["status"]) == (503, "failed")
    (critical,) = [queue for queue in answer.body["queues"] if queue["name"] == name]
    assert critical == {
        "readable_name": f"queue '{name}' in vhost '/'",
        "name": name,
        "virtual_host": "/",
        "type": "classic",
    }
    done = home.control("check_if_node_is_mirror_sync_critical")
    assert done.code != 0
    assert (
        f"queue '{name}' in vhost '/' would lose its only synchronised replica (master) "
        f"if node {home.name} is stopped" in done.err
    )
    assert home.control("await_online_synchronized_mirror -t 1").code != 0
    assert metrics(home).value("mirrored_queues_led") >= 1
    eventually(
        lambda: metrics(cluster.nodes[1]).value("queue_mirrors_unsynchronised") >= 1,
        "the mirror's node says so, too",
    )
    channel.queue_purge(name)
    home.control.ok("await_online_synchronized_mirror -q -t 60")
    home.control.ok("check_if_node_is_mirror_sync_critical -q")
    answer = home.api.get("health", "checks", "node-is-mirror-sync-critical")
    assert (answer.status, answer.body) == (200, {"status": "ok"})


def test_the_log_of_the_leader_tells_of_its_mirrors(cluster: ClusterOfNodes, prefix: str) -> None:
    home, name = cluster.nodes[2], f"{prefix}-q"
    declare(home, name)
    eventually(lambda: has_mirrors(home, name, 2, 2), "both mirrors are in sync")
    eventually(lambda: logged(home, "queue is mirrored", name), "it is told")
    for node in NAMES[:2]:
        added = ("mirror is added", name, f"node={node}")
        eventually(lambda added=added: logged(home, *added), "it is told")
    set_policy(home.api, prefix, {"ha-mode": "nodes", "ha-params": [NAMES[2], NAMES[0]]})
    eventually(lambda: logged(home, "mirror is dropped", name, f"node={NAMES[1]}"), "it is told")
    assert not logged(cluster.nodes[0], "mirror is added", name)


def metrics(node: NodeProcess) -> Scraped:
    return Scraped(ask(Address("127.0.0.1", node.http_port), "/metrics")[2])


def logged(node: NodeProcess, *words: str) -> bool:
    return any(all(word in line for word in words) for line in node.log().splitlines())


def test_whoever_listens_at_any_node_hears_of_mirrors_and_of_their_synchronisation(
    cluster: ClusterOfNodes, prefix: str, open_on: OpenOn
) -> None:
    home, name = cluster.nodes[0], f"{prefix}-told"
    ears, told = open_on(cluster.nodes[2]), []
    queue = ears.queue_declare("", exclusive=True).method.queue
    for key in ("warren.mirror.*", "warren.sync.*"):
        ears.queue_bind(queue, "amq.rabbitmq.event", key)

    def heard(key: str, **about: object) -> bool:
        while (got := ears.basic_get(queue, auto_ack=True))[0] is not None:
            told.append((got[0].routing_key, got[1].headers))
        facts = {"node": NAMES[0], "vhost": "/", "queue": name, **about}
        return any(each == key and facts.items() <= headers.items() for each, headers in told)

    set_policy(home.api, prefix, {"ha-mode": "exactly", "ha-params": 1})
    declare(home, name)
    publish(open_on(home, confirms=True), name, b"a message that was there before the mirrors")
    eventually(lambda: heard("warren.mirror.begun"), "it is mirrored, though on one node")
    set_policy(home.api, prefix, {"ha-mode": "all", "ha-sync-mode": "automatic"})
    for node in NAMES[1:]:
        eventually(lambda node=node: heard("warren.mirror.added", mirror=node), "it is added")
    eventually(lambda: heard("warren.sync.complete", left=0), "they have the message")
    eventually(lambda: heard("warren.mirror.insync", count=3), "all are in sync")
    home.api.delete("policies", "/", prefix)
    eventually(lambda: heard("warren.mirror.ended"), "it is mirrored no more")
