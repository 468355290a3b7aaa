"""What nodes do that come back to mirrored queues: what their disks have still counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.mirrored import MirroredCluster, drain, numbered, publish_all, running_mirrored
from cluster.nodes import NodeProcess, eventually

WARREN = Path(sys.executable).with_name("warren")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("back")) as cluster:
        yield cluster


def fill(node: NodeProcess, queue: str, count: int) -> None:
    channel = node.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    publish_all(channel, queue, numbered(*range(count)))


def shown(node: NodeProcess, queue: str) -> dict[str, object]:
    body: dict[str, object] = node.api.get("queues", "/", queue).body
    return body


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
    assert cluster.home_of("mirrored-left") is None, "the last one to stop may have had more"
    two.control.ok(f"forget_cluster_node {three.name}")
    two.control.ok(f"forget_cluster_node {one.name}")
    eventually(lambda: shown(two, "mirrored-left").get("messages") == 15, "it leads")
    assert [body for body, _ in drain(two.channel(), "mirrored-left")] == numbered(*range(15))
    for node in (one, three):
        command = [WARREN, "reset", "--force", "--data-dir", node.data_dir]
        subprocess.run(command, check=True, timeout=60)
    cluster.start_all()
