"""Nodes that may not join say why in a line, and the cluster goes on without them."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.nodes import ClusterOfNodes, NodeProcess, eventually
from etcd_process import EtcdCluster

EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78


def test_a_node_without_a_secret_does_not_start(cluster: ClusterOfNodes) -> None:
    node = cluster.newcomer("no-secret", "n8@localhost", secret="")
    node.launch()
    assert node.await_end() == EXIT_CONFIG
    assert "a node of a cluster needs --cluster-secret" in node.log()


def test_a_node_whose_name_is_taken_does_not_start(
    cluster: ClusterOfNodes, first: BlockingChannel, name: str
) -> None:
    node = cluster.newcomer("same-name", "n2@localhost")
    node.launch()
    assert node.await_end() == EXIT_UNAVAILABLE
    assert re.search(r"Error: there is a living node 'n2@localhost' in cluster '.*'", node.log())
    assert not (node.data_dir / "msg_stores").exists(), "it heard of it before it did anything"
    first.queue_declare(name)
    assert not cluster.nodes[1].has_ended


def test_a_node_with_another_secret_does_not_start_and_delays_nobody(
    cluster: ClusterOfNodes, first: BlockingChannel, name: str
) -> None:
    node = cluster.newcomer("wrong-secret", "n9@localhost", secret="something else altogether")
    node.launch()
    assert node.await_end() == EXIT_UNAVAILABLE
    assert "Error: this node cannot join cluster '" in node.log()
    assert re.search(r": node 'n\d@localhost' has another cluster secret$", node.log(), re.M)
    assert "something else" not in node.log()
    first.queue_declare(name)
    assert not re.search("not applied a change in time.*n9@localhost", cluster.nodes[0].log())


def test_a_second_process_on_the_data_of_a_living_node_does_not_start_nor_harm_it(
    cluster: ClusterOfNodes, second: BlockingChannel, name: str
) -> None:
    living = cluster.nodes[1]
    node = cluster.newcomer("same-directory", living.name)
    node.options += ["--data-dir", str(living.data_dir)]
    node.launch()
    assert node.await_end() == EXIT_UNAVAILABLE
    assert re.search(r"is in use by another broker \(pid \d+\)", node.log())
    second.queue_declare(name)
    second.queue_delete(name)


def test_data_of_a_node_on_its_own_and_of_a_cluster_are_not_mixed_up(
    cluster: ClusterOfNodes,
) -> None:
    """What the other kind of node knows nothing of, it would delete."""
    node = cluster.newcomer("alone", "n7@localhost")
    in_cluster, node.options = node.options, ["--name", "n7@localhost"]
    node.start()
    node.stop()
    node.options = in_cluster
    node.launch()
    assert node.await_end() == EXIT_UNAVAILABLE
    assert "belongs to a node on its own: it has a metadata.sqlite" in node.log()

    member = cluster.newcomer("of-a-cluster", "n6@localhost")
    member.options = ["--name", "n1@localhost", "--data-dir", str(cluster.nodes[0].data_dir)]
    member.launch()
    assert member.await_end() == EXIT_UNAVAILABLE
    assert "belongs to a node of a cluster" in member.log()


def test_of_two_nodes_with_different_secrets_that_start_at_once_one_stops(tmp_path: Path) -> None:
    etcd = EtcdCluster().start()
    nodes = [
        NodeProcess(tmp_path / name, f"{name}@localhost", etcd.url, f"known to {name} alone")
        for name in ("n1", "n2")
    ]
    try:
        for node in nodes:
            node.launch()
        ended = eventually(lambda: [n for n in nodes if n.has_ended], "one stops", within_s=60)
        (loser,) = ended
        assert loser.await_end() == EXIT_UNAVAILABLE
        assert re.search(
            r"Error: this node cannot (join|stay in) cluster .* has another cluster secret",
            loser.log(),
        )
        (winner,) = (node for node in nodes if node is not loser)
        winner.await_ready()
    finally:
        for node in nodes:
            node.kill()
        etcd.stop()


def test_strangers_at_the_port_of_links_keep_no_node_out(cluster: ClusterOfNodes) -> None:
    """Of those who have not proved themselves the oldest go, so that a node always gets in."""
    port = cluster.nodes[0].cluster_port
    strangers = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(300)]
    try:
        assert b"too many links" in strangers[0].recv(4096)
        strangers[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            strangers[-1].recv(1)
    finally:
        for stranger in strangers:
            stranger.close()
