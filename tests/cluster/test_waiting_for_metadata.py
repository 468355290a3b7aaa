"""Nodes that are started before their metadata store can be asked (case 6-14)."""

from __future__ import annotations

import re
from pathlib import Path

from cluster.nodes import NodeProcess, eventually
from etcd_process import EtcdCluster

EXIT_UNAVAILABLE = 69
WAITING = re.compile(r"waiting for the metadata store.*retries_left=(\d+)")


def test_6_14_a_node_waits_as_long_and_as_often_as_it_is_told_and_then_gives_up(
    tmp_path: Path,
) -> None:
    wait = "mnesia_table_loading_retry_timeout = 300\nmnesia_table_loading_retry_limit = 3\n"
    node = NodeProcess(tmp_path / "n1", "n1@localhost", EtcdCluster().url, config=wait)
    node.launch()
    try:
        assert node.await_end() == EXIT_UNAVAILABLE
        assert WAITING.findall(node.log()) == ["2", "1", "0"]
        assert "is etcd running at" in node.log()
    finally:
        node.kill()


def test_6_14_a_node_that_waits_starts_when_the_metadata_store_does(tmp_path: Path) -> None:
    etcd = EtcdCluster()
    node = NodeProcess(tmp_path / "n1", "n1@localhost", etcd.url)
    node.launch()
    try:
        eventually(lambda: WAITING.search(node.log()), "the node waits")
        etcd.start()
        node.await_ready()
    finally:
        node.kill()
        etcd.stop()
