"""Policies change where a queue's copies are, in any order and at any rate (cases 4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cluster.conftest import OpenOn
from cluster.mirrored import EVERYWHERE, MirroredCluster, drain, numbered, publish_all
from cluster.nodes import count_of, eventually
from warren.metadata.keys import KeyKind, prefix

MESSAGES = 500
POLICIES = 12
SEED = 4_10
SETTLING_S = 90.0


class Seen:
    """A queue, the policy for it, and where operators see its copies."""

    def __init__(self, cluster: MirroredCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self._has_policy = False

    def apply(self, definition: dict[str, Any] | None, at: int = 0) -> None:
        api = self.cluster.nodes[at].api
        if definition is None:
            api.delete("policies", "/", self.name)
        else:
            body = {"pattern": f"^{self.name}$", "definition": definition, "apply-to": "queues"}
            api.must(api.put("policies", "/", self.name, body=body))

    def nodes(self, *numbers: int) -> dict[str, Any]:
        names = [self.cluster.nodes[i].name for i in numbers]
        return {"ha-mode": "nodes", "ha-params": names}

    @property
    def place(self) -> tuple[int, set[int] | None]:
        """Master and mirrors; None for mirrors of a queue that is not mirrored.

        While it moves, a queue is nowhere, -1.
        """
        answer = self.cluster.nodes[0].api.get("queues", "/", self.name)
        if answer.status != 200:
            return -1, set()
        shown = answer.body
        numbers = {node.name: i for i, node in enumerate(self.cluster.nodes)}
        mirrors = shown.get("slave_nodes")
        return numbers.get(shown["node"], -1), mirrors and {numbers[name] for name in mirrors}

    def await_place(self, master: int, mirrors: set[int] | None) -> None:
        eventually(lambda: self.place == (master, mirrors), f"{master}, {mirrors}", SETTLING_S)

    def agrees_with(self, definition: dict[str, Any] | None) -> bool:
        master, mirrors = self.place
        if definition is None:
            return mirrors is None
        if mirrors is None or master < 0:
            return False
        wanted = definition.get("ha-params")
        match definition["ha-mode"]:
            case "all":
                return len(mirrors) == len(self.cluster.nodes) - 1
            case "exactly":
                return len(mirrors) == int(wanted) - 1
        names = {self.cluster.nodes[i].name for i in (master, *mirrors)}
        return names == set(wanted)


@pytest.fixture
def queue(mirrored_cluster: MirroredCluster, name: str, open_on: OpenOn) -> Iterator[Seen]:
    """Declared at the first node, with one message, and no policy yet."""
    channel = open_on(mirrored_cluster.nodes[0], confirms=True)
    channel.queue_declare(name, durable=True)
    seen = Seen(mirrored_cluster, name)
    yield seen
    seen.apply(None)
    open_on(mirrored_cluster.nodes[0]).queue_delete(name)


def test_4_07_each_policy_has_the_copies_it_wants(queue: Seen) -> None:
    queue.await_place(0, None)
    queue.apply(EVERYWHERE)
    queue.await_place(0, {1, 2})
    queue.apply(queue.nodes(0, 1))
    queue.await_place(0, {1})
    queue.apply(queue.nodes(0, 2))
    queue.await_place(0, {2})
    queue.apply(None)
    queue.await_place(0, None)
    queue.apply(queue.nodes(1, 2))
    ends = ((1, {2}), (2, {1}))
    eventually(lambda: queue.place in ends, "whichever has everything first leads", SETTLING_S)
    home = queue.place[0]
    queue.apply(None)
    queue.await_place(home, None)


def test_4_10_the_last_of_many_policies_holds_and_no_message_is_lost(
    queue: Seen, open_on: OpenOn
) -> None:
    """Set through all nodes at once, while the queue is full."""
    dice = random.Random(SEED)
    channel = open_on(queue.cluster.nodes[0], confirms=True)
    publish_all(channel, queue.name, numbered(*range(MESSAGES)))
    for _ in range(2):
        last = _apply_many(queue, [_random_policy(dice, queue) for _ in range(POLICIES)])
        eventually(lambda last=last: queue.agrees_with(last), f"{last} holds", SETTLING_S)
        assert count_of(open_on(queue.cluster.nodes[2]), queue.name) == MESSAGES
    reader = open_on(queue.cluster.nodes[1])
    assert [body for body, _ in drain(reader, queue.name)] == numbered(*range(MESSAGES))


def _apply_many(queue: Seen, policies: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The last one last, the others through all nodes at the same time."""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: queue.apply(policies[i], i % 3), range(len(policies))))
    queue.apply(policies[-1])
    return policies[-1]


def _random_policy(dice: random.Random, queue: Seen) -> dict[str, Any] | None:
    automatic = {"ha-sync-mode": "automatic"}
    match dice.choice(["none", "all", "nodes", "exactly"]):
        case "all":
            return {**EVERYWHERE, **automatic}
        case "nodes":
            return {**queue.nodes(*dice.sample(range(3), dice.randint(1, 3))), **automatic}
        case "exactly":
            return {"ha-mode": "exactly", "ha-params": dice.randint(1, 3), **automatic}
    return None


def test_4_11_sequences_that_once_failed_end_as_they_should(queue: Seen) -> None:
    def exactly(count: int) -> dict[str, Any]:
        return {"ha-mode": "exactly", "ha-params": count}

    three = exactly(3)
    for sequence in (
        [queue.nodes(0, 1), queue.nodes(0)],
        [three, None, EVERYWHERE, queue.nodes(1)],
        [EVERYWHERE, None, exactly(2), EVERYWHERE, three, three, None, three, EVERYWHERE],
    ):
        for policy in sequence:
            queue.apply(policy)
        last = sequence[-1]
        eventually(lambda last=last: queue.agrees_with(last), f"{last} holds", SETTLING_S)


def test_4_16_a_virtual_host_with_mirrored_queues_is_deleted(
    mirrored_cluster: MirroredCluster, name: str
) -> None:
    nodes = mirrored_cluster.nodes
    for _ in range(2):
        nodes[0].api.must(nodes[0].api.put("vhosts", name))
        policy = {"pattern": ".*", "definition": EVERYWHERE, "apply-to": "queues"}
        nodes[0].api.must(nodes[0].api.put("policies", name, "all", body=policy))
        connection = nodes[1].connect(virtual_host=name)
        channel = connection.channel()
        channel.confirm_delivery()
        for i in range(3):
            channel.queue_declare(f"{name}-{i}", durable=True)
            publish_all(channel, f"{name}-{i}", numbered(0))
        nodes[2].api.must(nodes[2].api.delete("vhosts", name))
        for node in nodes:
            eventually(lambda node=node: not _has_vhost(node, name), "it is gone")
        assert not mirrored_cluster.has_in_store(prefix(KeyKind.GROUP, name))


def _has_vhost(node: Any, vhost: str) -> bool:
    return bool(node.api.get("vhosts", vhost).status == 200)


def test_4_35_a_policy_for_exchanges_does_not_touch_queues_nor_the_other_way_round(
    queue: Seen, open_on: OpenOn
) -> None:
    cluster, name = queue.cluster, queue.name
    api = cluster.nodes[0].api
    open_on(cluster.nodes[0]).exchange_declare(name)
    for target, definition in (
        ("exchanges", {"alternate-exchange": "amq.fanout"}),
        ("queues", EVERYWHERE),
    ):
        body = {"pattern": f"^{name}$", "definition": definition, "apply-to": target}
        api.must(api.put("policies", "/", f"{name}-{target}", body=body))
    queue.await_place(0, {1, 2})
    assert api.get("queues", "/", name).body["policy"] == f"{name}-queues"
    assert api.get("exchanges", "/", name).body["policy"] == f"{name}-exchanges"
    api.must(api.delete("policies", "/", f"{name}-queues"))
    queue.await_place(0, None)
    assert not api.get("queues", "/", name).body.get("policy")
    api.must(api.delete("policies", "/", f"{name}-exchanges"))
    open_on(cluster.nodes[0]).exchange_delete(name)
