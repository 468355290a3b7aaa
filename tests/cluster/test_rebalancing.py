"""`rebalance` spreads masters over the nodes, and what is in the queues survives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster.conftest import OpenOn
from cluster.mirrored import (
    EVERYWHERE,
    MirroredCluster,
    drain,
    numbered,
    publish_all,
)
from cluster.nodes import eventually
from warren.metadata.keys import lock_key

QUEUES = 5
STAYS_S = 1.5
"""Long enough for several hand-overs."""


@pytest.fixture(scope="module")
def cluster(mirrored_cluster: MirroredCluster) -> MirroredCluster:
    return mirrored_cluster


Prepare = Callable[[dict[str, Any]], list[str]]


@pytest.fixture
def prepare(cluster: MirroredCluster, name: str, open_on: OpenOn) -> Iterator[Prepare]:
    """Queues whose masters are all on the first node; the first two have messages."""
    channel = open_on(cluster.nodes[0], confirms=True)
    queues = [f"{name}-{i}" for i in range(QUEUES)]

    def prepare(definition: dict[str, Any]) -> list[str]:
        for queue in queues:
            channel.queue_declare(queue, durable=True)
        publish_all(channel, queues[0], numbered(*range(5)))
        publish_all(channel, queues[1], numbered(*range(3)))
        cluster.mirror(name, f"^{name}-", definition)
        for queue in queues:
            eventually(lambda queue=queue: _has_mirror(cluster, queue), f"{queue} is mirrored")
        return queues

    yield prepare
    for queue in queues:
        channel.queue_delete(queue)
    cluster.stop_mirroring(name)


def _has_mirror(cluster: MirroredCluster, queue: str) -> bool:
    group = cluster.group(queue)
    return group is not None and len(group.live) > 1


def _masters(cluster: MirroredCluster, queues: list[str]) -> Counter[str]:
    homes = [cluster.master_node_of(queue) for queue in queues]
    return Counter("nowhere" if home is None else home.name for home in homes)


@pytest.mark.parametrize("mode", ["all", "exactly", "nodes"])
def test_4_19_and_4_20_masters_are_spread_and_the_fullest_queues_stay(
    mode: str, cluster: MirroredCluster, prepare: Prepare, name: str, open_on: OpenOn
) -> None:
    names = [node.name for node in cluster.nodes]
    params = {"exactly": {"ha-params": 2}, "nodes": {"ha-params": names[:2]}}.get(mode, {})
    queues = prepare({"ha-mode": mode, **params})
    cluster.nodes[1].control.ok(f"rebalance classic --queue-pattern ^{name}-")
    masters = _masters(cluster, queues)
    assert max(masters.values()) <= (3 if mode == "nodes" else 2), masters
    assert "nowhere" not in masters
    assert _masters(cluster, queues[:2]) == {names[0]: 2}
    reader = open_on(cluster.nodes[2])
    assert [body for body, _ in drain(reader, queues[0])] == numbered(*range(5))
    assert [body for body, _ in drain(reader, queues[1])] == numbered(*range(3))


def test_a_master_moves_with_its_messages_to_a_copy_that_lacked_them(
    cluster: MirroredCluster, prepare: Prepare, name: str, open_on: OpenOn
) -> None:
    """RabbitMQ would drop what the destination has not got."""
    queues = prepare(EVERYWHERE)
    for queue in queues[2:]:
        publish_all(open_on(cluster.nodes[1], confirms=True), queue, numbered(*range(100)))
    cluster.nodes[0].control.ok(f"rebalance all --queue-pattern ^{name}-")
    assert max(_masters(cluster, queues).values()) <= 2
    reader = open_on(cluster.nodes[2])
    for queue in queues[2:]:
        assert [body for body, _ in drain(reader, queue)] == numbered(*range(100))


def test_a_master_that_is_sent_back_soon_stays_where_it_is(
    cluster: MirroredCluster, prepare: Prepare, name: str, open_on: OpenOn
) -> None:
    """The node that sent it away first sent it away again, and that one back, for a minute."""
    queues = prepare(EVERYWHERE)
    rebalance = f"rebalance all --queue-pattern ^{name}-"
    cluster.nodes[0].control.ok(rebalance)
    channel = open_on(cluster.nodes[0])
    for queue in queues[:2]:  # the only ones that stayed
        channel.queue_delete(queue)
    cluster.nodes[0].control.ok(rebalance)
    assert _masters(cluster, queues[2:])[cluster.nodes[0].name] == 1
    epochs = _epochs(cluster, queues[2:])
    time.sleep(STAYS_S)
    assert _epochs(cluster, queues[2:]) == epochs


def _epochs(cluster: MirroredCluster, queues: list[str]) -> list[int]:
    groups = [cluster.group(queue) for queue in queues]
    return [group.epoch for group in groups if group is not None]


def test_4_21_only_one_rebalances_at_a_time(cluster: MirroredCluster) -> None:
    cluster.put_in_store(lock_key("rebalance"), b"somebody")
    try:
        for node in cluster.nodes:
            done = node.control("rebalance all")
            assert done.code == 69
            assert "rebalance_in_progress" in done.err
            assert node.api.post("rebalance", "queues").status == 204, "which tells nothing"
    finally:
        cluster.delete_from_store(lock_key("rebalance"))
    cluster.nodes[0].control.ok("rebalance all")


def test_the_resource_of_rabbitmq_begins_it_and_does_not_wait(
    cluster: MirroredCluster, prepare: Prepare
) -> None:
    queues = prepare(EVERYWHERE)
    assert cluster.nodes[2].api.post("rebalance", "queues").status == 204
    eventually(lambda: len(_masters(cluster, queues) - Counter(nowhere=QUEUES)) > 1, "some move")


def test_a_type_of_queue_that_there_is_not_is_refused(cluster: MirroredCluster) -> None:
    done = cluster.nodes[0].control("rebalance everything")
    assert done.code == 69
    assert "type everything is not supported. Try one of all, classic, quorum." in done.err
