"""Restarts of a cluster's nodes: which copies count, and what becomes of queues without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error
from claims.test_clusters import declare_mirrored, shown
from claims.test_failover import NEW, OLD, with_unsynchronised_mirror
from cluster.conftest import OpenOn
from cluster.mirrored import MirroredCluster, drain, numbered, publish_all, refusal_of
from cluster.nodes import NodeProcess, count_of, eventually
from cluster.test_coming_back import begin_anew, caught_up
from cluster.test_waiting_for_metadata import EXIT_UNAVAILABLE, WAITING
from etcd_process import EtcdCluster

COUNT = 15


@pytest.fixture
def channel(three: MirroredCluster, open_on: OpenOn) -> BlockingChannel:
    """At the first node, with confirms."""
    return open_on(three.nodes[0], confirms=True)


@pytest.fixture
def queue(three: MirroredCluster, name: str, channel: BlockingChannel) -> str:
    """With messages, mirrored on all three nodes, in sync; the master is on the first."""
    queue = f"mirrored-{name}"
    declare_mirrored(three, channel, queue)
    publish_all(channel, queue, numbered(*range(COUNT)))
    return queue


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    return [body for body, _ in drain(channel, queue)]


def test_c057_last_node(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """If no other node is left, persistent messages stay on the last one's disk."""
    one, two, last = three.nodes
    one.stop()
    two.stop()
    publish_all(open_on(last, confirms=True), queue, numbered(COUNT))
    last.stop()
    last.start()
    eventually(lambda: shown(three, queue).get("node") == last.name, "it leads")
    assert bodies(open_on(last), queue) == numbered(*range(COUNT + 1))


def test_c058_rejoining(three: MirroredCluster, queue: str, channel: BlockingChannel) -> None:
    """A node that joins again throws away what it had."""
    three.nodes[2].kill()
    publish_all(channel, queue, numbered(COUNT))
    three.nodes[2].start()
    three.await_in_sync(queue)
    kept, sent = caught_up(three.nodes[0], queue)[-1]
    assert kept + sent == COUNT + 1
    assert sent <= 1, "only the difference is sent"


def test_c059_rejoining_unsynchronised(
    three: MirroredCluster, name: str, channel: BlockingChannel
) -> None:
    """A node with a mirror that was not in sync throws away what it had when it joins again."""
    with_unsynchronised_mirror(three, channel, name)

    def lacking() -> int | None:
        ring = three.nodes[0].api.get("warren", "queues", "/", name, "ring").body
        found = [m["lacking"] for m in ring["members"] if m["node"] == three.nodes[1].name]
        return found[0] if found else None

    assert lacking() == OLD
    three.nodes[1].kill()
    three.nodes[1].start()
    eventually(lambda: shown(three, name).get("slave_nodes") == [three.nodes[1].name], "it is back")
    eventually(lambda: lacking() is not None, "the master knows what it lacks")
    assert lacking() == OLD, f"it has kept {NEW}"


def test_c066_clean_stop(
    three: MirroredCluster, name: str, channel: BlockingChannel, open_on: OpenOn
) -> None:
    """With ha-promote-on-shutdown when-synced, the default, a queue without a mirror in sync is
    unavailable after its node was stopped in good order."""
    with_unsynchronised_mirror(three, channel, name)
    warned = three.nodes[0].control("check_if_node_is_mirror_sync_critical")
    assert (warned.code, name in warned.err) == (69, True)
    three.nodes[0].stop()
    other = open_on(three.nodes[1])
    assert refusal_of(lambda: other.queue_declare(name, durable=True)) == 404
    assert shown(three, name) == {}
    three.nodes[0].start()
    eventually(lambda: shown(three, name).get("messages") == OLD + NEW, "all are back")


def test_c067_crash(
    three: MirroredCluster, name: str, channel: BlockingChannel, open_on: OpenOn
) -> None:
    """If the node crashes instead, a mirror is promoted, whatever it lacks."""
    with_unsynchronised_mirror(three, channel, name)
    three.nodes[0].kill()
    assert count_of(_declared(open_on(three.nodes[1]), name), name) == NEW


def test_c068_always(
    three: MirroredCluster, name: str, channel: BlockingChannel, open_on: OpenOn
) -> None:
    """With ha-promote-on-shutdown always, a mirror is promoted in any case."""
    with_unsynchronised_mirror(three, channel, name, ha_promote_on_shutdown="always")
    three.nodes[0].stop()
    assert count_of(_declared(open_on(three.nodes[1]), name), name) == NEW


def test_c069_promote_on_failure(
    three: MirroredCluster, name: str, channel: BlockingChannel, open_on: OpenOn
) -> None:
    """With ha-promote-on-failure when-synced a queue waits for its node after a crash, too."""
    with_unsynchronised_mirror(three, channel, name, ha_promote_on_failure="when-synced")
    three.nodes[0].kill()
    other = open_on(three.nodes[1])
    assert refusal_of(lambda: other.queue_declare(name, durable=True)) == 404
    three.nodes[0].start()
    eventually(lambda: shown(three, name).get("messages") == OLD + NEW, "all are back")


def _declared(channel: BlockingChannel, queue: str) -> BlockingChannel:
    """A declare waits until its queue has a master."""
    channel.queue_declare(queue, durable=True)
    return channel


def test_c072_order_of_starts(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """The last node to stop has to be the first to start; others wait 30 s for it, then stop."""
    one, two, last = three.nodes
    one.stop()
    publish_all(open_on(last, confirms=True), queue, numbered(COUNT))
    two.stop()
    last.stop()
    one.start()
    open_on(one, confirms=True).queue_declare("c072", durable=True)
    assert one.api.get("queues", "/", queue).status == 404, "others know more"
    last.start()
    eventually(lambda: shown(three, queue).get("messages") == COUNT + 1, "the last one leads")
    assert bodies(open_on(one), queue) == numbered(*range(COUNT + 1))


def test_c073_thirty_seconds(tmp_path: Path) -> None:
    """A node waits 30 s for those that it needs."""
    wait = "mnesia_table_loading_retry_timeout = 300\nmnesia_table_loading_retry_limit = 2\n"
    node = NodeProcess(tmp_path / "n1", "n1@localhost", EtcdCluster().url, config=wait)
    node.launch()
    try:
        assert node.await_end() == EXIT_UNAVAILABLE
        assert WAITING.findall(node.log()) == ["1", "0"]
    finally:
        node.kill()


def test_c074_all_at_once(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """If all nodes are lost at once, all have to be started within 30 s."""
    for node in three.nodes:
        node.kill()
    for node in reversed(three.nodes):
        node.launch()
    for node in three.nodes:
        node.await_ready()
    eventually(lambda: shown(three, queue).get("messages") == COUNT, "all are there")
    three.await_in_sync(queue)
    assert bodies(open_on(three.nodes[1]), queue) == numbered(*range(COUNT))


def test_c075_forget_cluster_node(
    three: MirroredCluster, queue: str, name: str, open_on: OpenOn
) -> None:
    """forget_cluster_node removes a node for good, and the copies that are left count."""
    one, two, gone = three.nodes
    at_gone = open_on(gone, confirms=True)
    at_gone.queue_declare(name, durable=True)
    refused = one.control(f"forget_cluster_node {gone.name}")
    assert refused.code != 0, "it runs"
    one.stop()
    two.stop()
    gone.stop()
    two.start()
    assert two.api.get("queues", "/", queue).status == 404, "the last one to stop may know more"
    words = f"forget_cluster_node {gone.name}"
    assert f"'{name}'" in two.control(words).err, "what would be lost, before it is"
    two.control.ok(f"{words} --yes")
    two.control.ok(f"forget_cluster_node {one.name} --yes")
    eventually(lambda: shown(three, queue).get("messages") == COUNT, "the copy that is left leads")
    assert two.api.get("queues", "/", name).status == 404
    gone.launch()
    assert gone.await_end() != 0
    assert "reset" in gone.log()[-2_000:]
    for node in (one, gone):
        begin_anew(node)


def test_c076_refusal(three: MirroredCluster, queue: str, open_on: OpenOn) -> None:
    """Clients that ask for a queue whose copies are all down are told which nodes have them."""
    one, two, last = three.nodes
    one.stop()
    publish_all(open_on(last, confirms=True), queue, numbered(COUNT))
    two.stop()
    last.stop()
    one.start()
    with channel_error(404) as refusal:
        open_on(one).queue_declare(queue, passive=True)
    assert last.name in refusal.text
