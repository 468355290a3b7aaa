"""Groups of consumers at several nodes: whose turn it is, and what a failover does to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.actions import Inbox, consume, settle
from cluster.mirrored import MirroredCluster, publish_all, running_mirrored
from cluster.nodes import NodeProcess, eventually

NAME = "mirrored-grouped"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MirroredCluster]:
    with running_mirrored(tmp_path) as cluster:
        yield cluster


def join(node: NodeProcess) -> Inbox:
    channel = node.channel()
    channel.basic_qos(prefetch_count=500)
    arguments = {
        "x-single-active-consumer": True, "x-stream-group": "g", "x-stream-offset": "first",
    }  # fmt: skip
    return consume(channel, NAME, arguments=arguments)


def fill(node: NodeProcess, first: int, end: int) -> None:
    channel = node.channel()
    channel.confirm_delivery()
    publish_all(channel, NAME, [b"%d" % number for number in range(first, end)])


def numbers(inbox: Inbox) -> list[int]:
    return [int(body) for body in inbox.bodies]


def ack(inbox: Inbox, count: int) -> None:
    inbox.channel.basic_ack(inbox.messages[count - 1].method.delivery_tag, multiple=True)
    settle(inbox.channel)


def statuses(node: NodeProcess) -> list[str]:
    shown = node.api.must(node.api.get("consumers", "/"))
    return sorted(each["activity_status"] for each in shown if each["queue"]["name"] == NAME)


def cursor(node: NodeProcess) -> int:
    answer = node.api.get("warren", "streams", "/", NAME, "groups", "g")
    return int(answer.body["offset"]) if answer.status == 200 else -1


def test_a_group_passes_over_nothing_whoever_goes(cluster: MirroredCluster) -> None:
    """First a consumer at another node than the master goes, then the master itself."""
    first, second, third = cluster.nodes
    first.channel().queue_declare(NAME, durable=True, arguments={"x-queue-type": "stream"})
    cluster.await_in_sync(NAME)
    fill(first, 0, 100)
    one = join(second)
    one.await_count(100)
    two, three = join(third), join(second)
    for node in cluster.nodes:
        assert statuses(node) == ["single_active", "waiting", "waiting"]
    ack(one, 30)
    settle(two.channel)
    assert two.messages == []
    one.channel.connection.close()
    two.await_count(70)
    assert numbers(two) == list(range(30, 100))
    ack(two, 20)
    eventually(lambda: cursor(second) == 50, "what is acknowledged is stored before long")
    first.kill()
    eventually(lambda: cluster.master_node_of(NAME) in (second, third), "another is master")
    fill(third, 100, 150)

    def has_all() -> bool:
        for inbox in (two, three):
            settle(inbox.channel)
        return {*numbers(two), *numbers(three)} >= set(range(30, 150))

    eventually(has_all, "all records come to one or the other")
    assert not set(numbers(three)) & set(range(50)), "what the group was done with is past"
