"""Nodes that may not join say why in a line, and the cluster goes on without them."""

from __future__ import annotations

import re

from pika.adapters.blocking_connection import BlockingChannel

from cluster.nodes import ClusterOfNodes, NodeProcess, eventually

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
    assert node.await_end(40) == EXIT_UNAVAILABLE
    assert re.search(r"Error: there is a living node 'n2@localhost' in cluster '.*'", node.log())
    first.queue_declare(name)
    assert not cluster.nodes[1].has_ended


def test_a_node_with_another_secret_is_refused_by_all(cluster: ClusterOfNodes) -> None:
    node = cluster.newcomer("wrong-secret", "n9@localhost", secret="another")
    node.launch()
    try:
        eventually(lambda: _is_refused(node), "it says why it is refused")
    finally:
        node.kill()
    assert "another" not in re.sub("has another cluster secret", "", node.log())


def _is_refused(node: NodeProcess) -> bool:
    return "has another cluster secret" in node.log()
