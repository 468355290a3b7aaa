"""Limits, dead letters and what else queues do by themselves come out the same in mirrored ones.

3-38 and 3-39: the tests of a single node, on a cluster where all their queues have copies on
all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance import test_dead_letter, test_limits, test_priority
from broker_process import Address
from cluster.mirrored import EVERYWHERE
from cluster.nodes import ClusterOfNodes, eventually
from live_broker import Names, channel, connect, names, raw

POLICY = "copies of what acceptance tests declare"


@pytest.fixture(scope="module")
def broker(cluster: ClusterOfNodes) -> Iterator[Address]:
    api = cluster.nodes[1].api
    body = {"pattern": "^t-", "definition": EVERYWHERE, "apply-to": "queues"}
    api.must(api.put("policies", "/", POLICY, body=body))
    yield cluster.nodes[1].address
    api.must(api.delete("policies", "/", POLICY))


def test_what_these_tests_declare_is_mirrored(
    cluster: ClusterOfNodes, names: Names, channel: BlockingChannel
) -> None:
    queue = names("queue")
    channel.queue_declare(queue)
    api = cluster.nodes[0].api
    seen = eventually(lambda: api.must(api.get("queues", "/", queue)), "it is known")
    assert len(seen["slave_nodes"]) == 2


for module in (test_limits, test_dead_letter, test_priority):
    globals().update(
        {name: each for name, each in vars(module).items() if name.startswith("test_")}
    )

__all__ = ["channel", "connect", "names", "raw"]
