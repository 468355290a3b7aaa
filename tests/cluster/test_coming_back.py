"""What nodes do that come back to mirrored queues: what their disks have still counts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.mirrored import MirroredCluster, drain, numbered, publish_all, running_mirrored
from cluster.nodes import NodeProcess, count_of, eventually

BACKLOG = 3_000
FIGURES = re.compile(r"messages_kept=(\d+) messages_sent=(\d+)")
WARREN = Path(sys.executable).with_name("warren")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("back")) as cluster:
        yield cluster


def fill(node: NodeProcess, queue: str, count: int) -> None:
    """All of it is on every disk then: the last one is confirmed."""
    channel = node.channel()
    channel.queue_declare(queue, durable=True)
    publish_all(channel, queue, numbered(*range(count - 1)))
    eventually(lambda: count_of(channel, queue) == count - 1, "all are there")
    channel.confirm_delivery()
    publish_all(channel, queue, numbered(count - 1))


def shown(node: NodeProcess, queue: str) -> dict[str, object]:
    body: dict[str, object] = node.api.get("queues", "/", queue).body
    return body


def caught_up(leader: NodeProcess, queue: str) -> list[tuple[int, int]]:
    """Of each mirror that came back: how many messages it kept, and how many it was sent."""
    lines = [line for line in leader.log().splitlines() if f"queue '{queue}'" in line]
    found = [FIGURES.search(line) for line in lines if "mirror has caught up" in line]
    return [(int(figures[1]), int(figures[2])) for figures in found if figures is not None]


def test_6_10_only_the_difference_travels_to_a_mirror_that_comes_back(
    cluster: MirroredCluster,
) -> None:
    """P5. RabbitMQ's begins empty."""
    one, two, three = cluster.nodes
    queue = "mirrored-backlog"
    fill(one, queue, BACKLOG)
    cluster.await_in_sync(queue)
    three.kill()
    channel = one.channel()
    channel.confirm_delivery()
    for _ in range(100):
        channel.basic_get(queue, auto_ack=True)
    publish_all(channel, queue, numbered(*range(BACKLOG, BACKLOG + 50)))
    before = len(caught_up(one, queue))
    three.start()
    cluster.await_in_sync(queue)
    # More than once if it was out of reach in between, but never with more.
    came_back = caught_up(one, queue)[before:]
    assert came_back
    assert all(kept + sent == BACKLOG - 50 and sent <= 50 for kept, sent in came_back)
    # What it has is what there is, in order, to the last message.
    two.kill()
    one.kill()
    seen = set()

    def leads() -> bool:
        seen.add(three.api.get("queues", "/", queue).status)
        return cluster.master_node_of(queue) is three

    eventually(leads, "it leads")
    assert seen <= {200, 503}, "a queue that moves is not taken for one that is not there"
    eventually(lambda: shown(three, queue).get("messages") == BACKLOG - 50, "nothing is missing")
    bodies = [body for body, _ in drain(three.channel(), queue)]
    assert bodies == numbered(*range(100, BACKLOG + 50))
    cluster.start_all()


def test_3_24_a_copy_that_came_back_and_leads_again_delivers_nothing_as_new(
    cluster: MirroredCluster,
) -> None:
    """Others have led meanwhile and may have delivered it, though this node never did."""
    one = cluster.nodes[0]
    fill(one, "mirrored-rolling", 20)
    cluster.await_in_sync("mirrored-rolling")
    assert cluster.master_node_of("mirrored-rolling") is one
    for _ in cluster.nodes:  # the eldest copy leads next, so each leads once
        leader = cluster.master_node_of("mirrored-rolling")
        assert leader is not None
        leader.stop()
        leader.start()
        cluster.await_in_sync("mirrored-rolling")
    assert cluster.master_node_of("mirrored-rolling") is one
    found = drain(one.channel(), "mirrored-rolling")
    assert found == [(body, True) for body in numbered(*range(20))]


def test_what_was_never_delivered_is_new_after_a_stop_of_all_nodes(
    cluster: MirroredCluster,
) -> None:
    one, two, three = cluster.nodes
    fill(one, "mirrored-night", 20)
    cluster.await_in_sync("mirrored-night")
    assert cluster.master_node_of("mirrored-night") is one
    one.channel().basic_get("mirrored-night")  # and it comes back
    for node in (three, two, one):
        node.stop()
    cluster.start_all()
    eventually(lambda: cluster.master_node_of("mirrored-night") is one, "it leads again")
    found = drain(one.channel(), "mirrored-night")
    assert found == [(body, body == b"0") for body in numbered(*range(20))]


def test_6_04_and_6_05_a_copy_of_a_node_that_stopped_earlier_counts_when_the_last_is_forgotten(
    cluster: MirroredCluster,
) -> None:
    one, two, three = cluster.nodes
    fill(one, "mirrored-left", 15)
    cluster.await_in_sync("mirrored-left")
    three.stop()
    eventually(
        lambda: shown(one, "mirrored-left")["recoverable_slaves"] == [two.name, three.name],
        "a node that is not there had a copy when it was last seen",
    )
    two.stop()
    one.stop()
    two.start()
    assert cluster.master_node_of("mirrored-left") is None, "the last one to stop may have had more"
    two.control.ok(f"forget_cluster_node --yes {three.name}")
    two.control.ok(f"forget_cluster_node --yes {one.name}")
    eventually(lambda: shown(two, "mirrored-left").get("messages") == 15, "it leads")
    assert [body for body, _ in drain(two.channel(), "mirrored-left")] == numbered(*range(15))
    begin_anew(one, three)
    cluster.start_all()


def test_6_04_and_6_07_nodes_are_forgotten_while_none_runs(cluster: MirroredCluster) -> None:
    """By `--offline`: what they alone had is gone, and the copy that is left counts."""
    one, two, three = cluster.nodes
    offline = f"--offline --metadata {cluster.etcd.url}"
    fill(one, "mirrored-kept", 15)
    at_three = three.channel()
    at_three.queue_declare("only-there", durable=True)
    at_three.exchange_declare("auto-there", auto_delete=True, durable=True)
    at_three.queue_bind("only-there", "auto-there", "key")
    cluster.await_in_sync("mirrored-kept")
    control = two.control
    running = control(f"forget_cluster_node {offline} {three.name}")
    assert (running.code, "ask one of these without it" in running.err) == (69, True), running
    for node in (three, two, one):
        node.stop()
    for line, code, said in (
        (f"{offline} nobody@nowhere", 69, "The node selected is not in the cluster."),
        (f"--offline {three.name}", 64, "--offline needs --metadata etcd://HOST:PORT"),
        (f"--offline --metadata sqlite {three.name}", 64, "--metadata: expected etcd://"),
    ):
        refused = control(f"forget_cluster_node {line}")
        assert (refused.code, said in refused.err) == (code, True), refused
    for node in (three, one):
        control.ok(f"forget_cluster_node --yes {offline} {node.name}")
    two.start()
    eventually(lambda: shown(two, "mirrored-kept").get("messages") == 15, "it leads")
    assert [body for body, _ in drain(two.channel(), "mirrored-kept")] == numbered(*range(15))
    assert two.api.get("queues", "/", "only-there").status == 404
    assert two.api.get("exchanges", "/", "auto-there").status == 404
    begin_anew(one, three)
    cluster.start_all()


def begin_anew(*nodes: NodeProcess) -> None:
    """They were forgotten, and have to be reset before they may join."""
    for node in nodes:
        command = [WARREN, "reset", "--force", "--data-dir", node.data_dir]
        subprocess.run(command, check=True, timeout=60)


def lacking(leader: NodeProcess, queue: str) -> dict[str, int | None]:
    """By node of a mirror: messages that it lacks, as far as the leader knows."""
    ring = leader.api.get("warren", "queues", "/", queue, "ring").body
    return {m["node"]: m["lacking"] for m in ring["members"] if not m["is_leader"]}


def test_6_10_a_mirror_that_is_not_synchronised_lacks_no_more_after_a_restart(
    cluster: MirroredCluster,
) -> None:
    """Neither by a stop in good order nor by a kill, nor if the master stops and comes back."""
    one, two, three = cluster.nodes
    queue = "behind"
    fill(one, queue, 200)
    cluster.mirror(queue, f"^{queue}$", {"ha-mode": "all", "ha-sync-mode": "manual"})
    behind = {two.name: 200, three.name: 200}
    eventually(lambda: lacking(one, queue) == behind, "it has mirrors that lack everything")
    publisher = one.channel()
    publisher.confirm_delivery()
    publish_all(publisher, queue, numbered(*range(200, 230)))
    two.stop()
    three.kill()
    publish_all(publisher, queue, numbered(*range(230, 240)))
    two.start()
    three.start()
    eventually(lambda: lacking(one, queue) == behind, "they have what they had")
    one.stop()
    one.start()
    eventually(lambda: lacking(one, queue) == behind, "and when the master is back")
    one.control.ok("sync_queue", queue)
    cluster.await_in_sync(queue)
    one.kill()
    eventually(lambda: cluster.master_node_of(queue) in (two, three), "a mirror leads")
    assert [body for body, _ in drain(two.channel(), queue)] == numbered(*range(240))
    cluster.start_all()
