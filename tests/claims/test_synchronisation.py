"""Synchronisation of mirrors that came late, and placement that changes under a queue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from claims.test_clusters import shown
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, drain, numbered, publish_all
from cluster.nodes import body_of, count_of, eventually
from cluster.test_synchronisation import begin_sync

BACKLOG = 600
BODY = bytes(1_000)


class Late:
    """A queue at the first of four nodes, which is mirrored when it has messages already."""

    def __init__(self, cluster: MirroredCluster, queue: str, open_on: OpenOn) -> None:
        self.cluster = cluster
        self.queue = queue
        self.channel = open_on(cluster.nodes[0], confirms=True)
        self.channel.queue_declare(queue, durable=True)

    def mirror(self, *nodes: int, **definition: Any) -> None:
        """On these nodes, or on all of them."""
        wanted: dict[str, Any] = {"ha-mode": "all"}
        if nodes:
            names = [self.cluster.nodes[i].name for i in nodes]
            wanted = {"ha-mode": "nodes", "ha-params": names}
        more = {key.replace("_", "-"): value for key, value in definition.items()}
        self.cluster.mirror(self.queue, f"^{self.queue}$", {**wanted, **more})

    def publish(self, count: int, body: bytes = b"") -> None:
        publish_all(self.channel, self.queue, [body or b"%d" % i for i in range(count)])

    @property
    def mirrors(self) -> list[str]:
        return list(shown(self.cluster, self.queue).get("slave_nodes", ()))

    @property
    def synchronised(self) -> set[str]:
        return set(shown(self.cluster, self.queue).get("synchronised_slave_nodes", ()))

    def await_mirrors(self, count: int) -> None:
        eventually(lambda: len(self.mirrors) == count, f"{count} mirrors")

    def await_synchronised(self, count: int) -> None:
        eventually(lambda: len(self.synchronised) == count, f"{count} in sync")

    def begin_sync(self) -> None:
        """Ask another node for it, and do not wait for the end, as the command does."""
        begin_sync(self.cluster.nodes[0], self.cluster.nodes[2], self.queue)

    def ring(self) -> dict[str, Any]:
        ring: dict[str, Any] = (
            self.cluster.nodes[0].api.get("warren", "queues", "/", self.queue, "ring").body
        )
        return ring

    def lacking(self) -> list[int]:
        return [m["lacking"] for m in self.ring()["members"] if not m["is_in_sync"]]


@pytest.fixture
def late(four: MirroredCluster, name: str, open_on: OpenOn) -> Iterator[Late]:
    late = Late(four, name, open_on)
    yield late
    four.nodes[0].api.delete("policies", "/", name)
    four.nodes[0].api.delete("queues", "/", name)


def test_c023_manual(late: Late) -> None:
    """ha-sync-mode is manual unless a policy says otherwise."""
    late.publish(20)
    late.mirror()
    late.await_mirrors(3)
    assert late.synchronised == set()
    late.cluster.nodes[0].control.ok(f"sync_queue {late.queue}")
    late.await_synchronised(3)


def test_c037_all_nodes_replaced(late: Late) -> None:
    """A queue on A and B that a policy moves to C and D keeps A until C or D is in sync."""
    late.mirror(0, 1, ha_sync_mode="automatic")
    late.await_synchronised(1)
    late.publish(BACKLOG, BODY)
    late.mirror(2, 3, ha_sync_mode="automatic")
    nodes = [node.name for node in late.cluster.nodes]
    masters: list[str] = []

    def has_moved() -> bool:
        master = shown(late.cluster, late.queue).get("node")
        if master is not None and masters[-1:] != [master]:
            masters.append(master)
        group = late.cluster.group(late.queue)
        return group is not None and {m.node for m in group.live} == set(nodes[2:])

    eventually(has_moved, "it is on C and D")
    assert has_moved()
    assert len(masters) == 2, masters
    assert masters[0] == nodes[0]
    assert masters[1] in nodes[2:]
    assert count_of(late.channel, late.queue) == BACKLOG


def test_c047_order_of_mirrors(late: Late) -> None:
    """slave_pids are in the order in which the mirrors joined."""
    late.mirror(0, 2)
    late.await_mirrors(1)
    late.mirror(0, 1, 2)
    late.await_mirrors(2)
    late.mirror()
    late.await_mirrors(3)
    expected = [late.cluster.nodes[i].name for i in (2, 1, 3)]
    assert late.mirrors == expected
    rows = late.cluster.nodes[0].control.ok("list_queues -q name slave_pids").rows
    (pids,) = [row[1] for row in rows if row[0] == late.queue]
    assert [pid.strip("[<").rpartition("@")[0] for pid in pids.split(", ")] == ["n3", "n2", "n4"]


def test_c048_natural_synchronisation(late: Late) -> None:
    """A new mirror gets what comes from then on, and is in sync when all that is older is gone."""
    late.publish(20)
    late.mirror(0, 1)
    eventually(lambda: late.lacking() == [20], "the mirror knows where it begins")
    late.publish(5)
    for _ in range(19):
        assert body_of(late.channel, late.queue) is not None
    last = late.channel.basic_get(late.queue)[0]
    time.sleep(0.2)
    assert late.synchronised == set(), "the twentieth is not acknowledged"
    late.channel.basic_ack(last.delivery_tag)
    late.await_synchronised(1)
    assert [body for body, _ in drain(late.channel, late.queue)] == numbered(*range(5))


def test_c050_automatic(late: Late) -> None:
    """With ha-sync-mode automatic a mirror is synchronised by itself."""
    late.publish(100)
    late.mirror(ha_sync_mode="automatic")
    late.await_synchronised(3)
    assert count_of(late.channel, late.queue) == 100


def test_c051_nothing_to_do(late: Late) -> None:
    """A queue whose messages are all acknowledged has nothing to synchronise."""
    late.publish(20)
    drain(late.channel, late.queue)
    late.mirror()
    late.await_synchronised(3)


def test_c052_list_synchronised(late: Late) -> None:
    """`list_queues name slave_pids synchronised_slave_pids` shows which mirrors are in sync."""
    late.publish(10)
    late.mirror(0, 1)
    late.await_mirrors(1)

    def row() -> list[str]:
        control = late.cluster.nodes[2].control
        rows = control.ok("list_queues -q name slave_pids synchronised_slave_pids").rows
        return next(row for row in rows if row[0] == late.queue)

    assert row()[1].startswith("[<n2@localhost.")
    assert row()[2] == "[]"
    drain(late.channel, late.queue)
    eventually(lambda: row()[1:2] == row()[2:3], "in sync")


def test_c053_sync_queue(late: Late) -> None:
    """sync_queue synchronises the mirrors of a queue, and its progress can be seen."""
    late.publish(BACKLOG, BODY)
    late.mirror(0, 1)
    late.await_mirrors(1)
    control = late.cluster.nodes[2].control
    late.begin_sync()
    assert f"{late.queue}\t{{syncing, " in control.ok("list_queues -q name state").out
    eventually(lambda: shown(late.cluster, late.queue).get("sync_messages"), "some are sent")
    control.ok(f"sync_queue {late.queue}")
    late.await_synchronised(1)
    assert control("sync_queue no-such-queue").code != 0


def test_c054_cancel_sync_queue(late: Late) -> None:
    """cancel_sync_queue ends the synchronisation of a queue."""
    late.publish(BACKLOG, BODY)
    late.mirror(0, 1)
    late.await_mirrors(1)
    control = late.cluster.nodes[2].control
    late.begin_sync()
    eventually(lambda: shown(late.cluster, late.queue).get("sync_messages"), "some are sent")
    control.ok(f"cancel_sync_queue {late.queue}")
    eventually(lambda: shown(late.cluster, late.queue).get("state") == "running", "it has ended")
    assert late.synchronised == set()
    (lacking,) = late.lacking()
    assert 0 < lacking < BACKLOG, "it keeps what it was sent"


def test_c055_standstill(late: Late) -> None:
    """A queue stands still while it is synchronised."""
    late.publish(BACKLOG, BODY)
    late.mirror(0, 1)
    late.await_mirrors(1)
    late.begin_sync()
    late.publish(10)
    assert body_of(late.channel, late.queue) == BODY
    assert shown(late.cluster, late.queue)["state"] == "syncing", "confirmed while it goes on"


def test_c056_batches(late: Late) -> None:
    """ha-sync-batch-size says how many messages a batch has: one, by default."""
    late.publish(100)
    late.mirror(0, 1, ha_sync_mode="automatic", ha_sync_batch_size=10)
    late.await_synchronised(1)
    refused = late.cluster.nodes[0].control(
        "set_policy", late.queue, "^x$", '{"ha-mode":"all","ha-sync-batch-size":0}'
    )
    assert refused.code == 65
    settings = late.cluster.nodes[0].control.ok("environment").out
    assert "4096" in settings.split("mirroring_sync_batch_size")[1][:20]
