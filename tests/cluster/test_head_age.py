"""The age of a mirrored queue's oldest message, when its master moves or its node dies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.mirrored import MirroredCluster, numbered, publish_all, running_mirrored
from cluster.nodes import NodeProcess, eventually

QUEUE = "ageing"
# Longer than the new copy of a move exists, so that it cannot come from there.
OLD_MS = 8_000


@pytest.fixture(scope="module")
def ageing_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path_factory.mktemp("ageing")) as cluster:
        yield cluster


def age_ms(node: NodeProcess) -> int:
    """0 while the queue has no master."""
    answer = node.api.get("queues", "/", QUEUE)
    return int(answer.body.get("head_message_age_ms") or 0) if answer.status == 200 else 0


def master_of(node: NodeProcess) -> str:
    answer = node.api.get("queues", "/", QUEUE)
    return str(answer.body["node"]) if answer.status == 200 else ""


def test_the_age_of_the_head_goes_on_when_the_master_moves_and_when_it_dies(
    ageing_cluster: MirroredCluster,
) -> None:
    first, second, third = ageing_cluster.nodes
    channel = first.channel()
    channel.confirm_delivery()
    channel.queue_declare(QUEUE, durable=True)
    publish_all(channel, QUEUE, numbered(*range(20)))
    eventually(lambda: age_ms(first) >= OLD_MS, "it is old")

    # A copy that is made now has only what it is told.
    before_ms = age_ms(first)
    both = {"ha-mode": "nodes", "ha-params": [second.name, third.name]}
    definition = {**both, "ha-sync-mode": "automatic"}
    ageing_cluster.mirror("here", f"^{QUEUE}$", definition, 1)
    eventually(lambda: master_of(third) in (second.name, third.name), "it has moved")
    assert age_ms(third) >= before_ms
    others = {second.name, third.name}
    eventually(lambda: ageing_cluster.in_sync(QUEUE) == others, "both have everything")

    eventually(lambda: age_ms(first) >= 2 * OLD_MS, "it is older than the copies")
    master = ageing_cluster.master_node_of(QUEUE)
    assert master is not None
    before_ms = age_ms(first)
    master.kill()
    eventually(lambda: master_of(first) not in ("", master.name), "another node leads")
    eventually(lambda: age_ms(first) > 0, "it tells its age")
    assert age_ms(first) >= before_ms
