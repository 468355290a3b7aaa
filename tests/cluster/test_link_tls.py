"""Links over TLS: nodes that work together, and nodes that do not get in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority
from cluster.nodes import NodeProcess, body_of, eventually, publish
from etcd_process import EtcdCluster

EXIT_UNAVAILABLE = 69
KEY = "warren.cluster_links.ssl_options"


class TlsNodes:
    """Two nodes whose links are encrypted and checked both ways; others may try to join."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory / "authority")
        self.etcd = EtcdCluster()
        self.nodes: list[NodeProcess] = []

    def add(self, name: str, config: str) -> NodeProcess:
        place = self.directory / name
        self.nodes.append(NodeProcess(place, f"{name}@localhost", self.etcd.url, config=config))
        return self.nodes[-1]

    def options(self, name: str, authority: Authority, days: int = 30) -> str:
        """Trust in this cluster's authority, and a certificate that may be of another."""
        shown = authority.issue(name, days)
        return (
            f"{KEY}.cacertfile = {self.authority.cacertfile}\n"
            f"{KEY}.certfile = {shown.certfile}\n"
            f"{KEY}.keyfile = {shown.keyfile}\n"
            f"{KEY}.verify = verify_peer\n"
            f"{KEY}.fail_if_no_peer_cert = true\n"
        )

    def start(self) -> None:
        self.etcd.start()
        for name in ("t1", "t2"):
            self.add(name, self.options(name, self.authority)).start()
        for node in self.nodes:
            eventually(
                lambda node=node: "connected to node" in node.log(), f"{node.name} is linked"
            )

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        self.etcd.stop()


@pytest.fixture(scope="module")
def tls_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNodes]:
    nodes = TlsNodes(tmp_path_factory.mktemp("tls-nodes"))
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.stop()


def failure_of(node: NodeProcess) -> str:
    node.launch()
    assert node.await_end(200) == EXIT_UNAVAILABLE, node.log()
    return next(line for line in node.log().splitlines() if line.startswith("Error: "))


def heard(nodes: list[NodeProcess], pattern: str) -> None:
    """A node that wants to join gives up at the first refusal, whose ever that is."""
    eventually(
        lambda: any(re.search(pattern, node.log()) for node in nodes), f"a node logs {pattern}"
    )


def test_messages_of_all_sizes_go_to_a_queue_at_the_other_node_and_back(
    tls_nodes: TlsNodes, name: str
) -> None:
    first, second = tls_nodes.nodes[:2]
    home, away = first.channel(), second.channel()
    home.queue_declare(name, durable=True)
    away.confirm_delivery()
    bodies = [bytes([65 + n]) * size for n, size in enumerate((1, 1_000, 50_000, 3_000_000))]
    for body in bodies:
        publish(away, name, body)
    assert [body_of(away, name) for _ in bodies] == bodies


def test_a_plain_node_does_not_join_and_both_sides_say_why(tls_nodes: TlsNodes) -> None:
    line = failure_of(tls_nodes.add("plain", ""))
    assert re.search(
        r"cannot join cluster '.*': node 't\d@localhost' speaks TLS on its links and this one "
        rf"does not: all nodes of a cluster need {KEY}, or none",
        line,
    )
    heard(tls_nodes.nodes[:2], r"TLS handshake failed .* of=links reason=.*does not speak TLS")


def test_a_node_with_a_certificate_of_another_authority_does_not_join(
    tls_nodes: TlsNodes, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "other", "another authority")
    line = failure_of(tls_nodes.add("stranger", tls_nodes.options("stranger", stranger)))
    assert re.search(r"node 't\d@localhost' does not accept this one: .*unknown ca", line), line
    heard(tls_nodes.nodes[:2], r"TLS handshake failed .* of=links reason=.*certificate")


def test_a_node_with_an_expired_certificate_does_not_join(tls_nodes: TlsNodes) -> None:
    line = failure_of(tls_nodes.add("late", tls_nodes.options("late", tls_nodes.authority, -1)))
    assert "certificate expired" in line
    heard(tls_nodes.nodes[:2], r"TLS handshake failed .* reason=.*certificate has expired")


def test_a_tls_node_does_not_join_a_plain_cluster_and_both_sides_say_why(tmp_path: Path) -> None:
    nodes = TlsNodes(tmp_path)
    try:
        nodes.etcd.start()
        plain = nodes.add("plain", "")
        plain.start()
        line = failure_of(nodes.add("tls", nodes.options("tls", nodes.authority)))
        assert "this node speaks TLS on its links and 'plain@localhost' does not" in line
        heard([plain], r"link of another node ended .* reason=.*the client speaks TLS")
        assert not plain.has_ended
    finally:
        nodes.stop()
