"""Mirrors that came late are given what was there before them, at real nodes."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from cluster.nodes import ClusterOfNodes, NodeProcess, eventually, running

WARRENCTL = Path(sys.executable).with_name("warrenctl")
# So slow that a synchronisation can be looked at.
SLOWLY = "mirroring_sync_max_throughput = 5kB\n"
SLOW_COUNT = 600
# As RabbitMQ does it; a few seconds of it.
BLOCKING = "mirroring_sync_max_throughput = 100kB\nwarren.mirroring_sync_blocking = true\n"


@pytest.fixture(scope="module")
def slow_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfNodes]:
    with running(tmp_path_factory.mktemp("slow"), SLOWLY) as cluster:
        yield cluster


def fill(node: NodeProcess, queue: str, count: int, size: int) -> None:
    """A queue of this node's, with a backlog."""
    channel = node.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    for _ in range(count):
        channel.basic_publish("", queue, bytes(size), pika.BasicProperties(delivery_mode=2))


def mirror(node: NodeProcess, queue: str, **definition: object) -> None:
    policy = {"pattern": f"^{queue}$", "definition": {"ha-mode": "all", **definition}}
    assert node.api.put("policies", "/", queue, body=policy).status in (201, 204)


def shown(node: NodeProcess, queue: str) -> dict[str, Any]:
    answer = node.api.get("queues", "/", queue)
    assert answer.status == 200
    found: dict[str, Any] = answer.body
    return found


def act(node: NodeProcess, queue: str, action: str) -> int:
    return node.api.post("queues", "/", queue, "actions", body={"action": action}).status


def begin_sync(leader: NodeProcess, other: NodeProcess, queue: str) -> None:
    """Mirrors come some time after the policy; asked for earlier, there is nothing to do."""

    def is_syncing() -> bool:
        assert act(other, queue, "sync") == 204
        return shown(leader, queue)["state"] == "syncing"

    eventually(is_syncing, "a mirror is being synchronised")


def has_ended(leader: NodeProcess, queue: str, how: str) -> bool:
    return f"synchronisation: {how} queue=\"queue '{queue}'" in leader.log()


def test_progress_is_shown_while_publishers_go_on_and_it_can_be_cancelled(
    slow_cluster: ClusterOfNodes,
) -> None:
    """5-04, 5-12, 5-13, 9-04; through a node that does not lead the queue."""
    first, second, _ = slow_cluster.nodes
    fill(first, "seen", SLOW_COUNT, 1_000)
    mirror(first, "seen")
    assert act(second, "seen", "cancel_sync") == 204, "not syncing is as good"
    begin_sync(first, second, "seen")
    sent = shown(second, "seen")["sync_messages"]
    listed = second.control.ok("list_queues -q name state").out
    assert "{syncing, " in listed
    channel = second.channel()
    channel.confirm_delivery()
    channel.basic_publish("", "seen", b"meanwhile", pika.BasicProperties(delivery_mode=2))
    still = shown(second, "seen")
    assert still["state"] == "syncing", "the publish was confirmed while it went on"
    eventually(lambda: shown(second, "seen").get("sync_messages", 0) > sent, "it goes on")
    assert act(second, "seen", "cancel_sync") == 204
    ended = shown(second, "seen")
    assert ended["state"] == "running"
    assert "sync_messages" not in ended
    assert ended["messages"] == SLOW_COUNT + 1
    assert not has_ended(first, "seen", "complete")


def test_the_tool_fails_if_what_it_waits_for_is_cancelled(slow_cluster: ClusterOfNodes) -> None:
    first, second, _ = slow_cluster.nodes
    fill(first, "given up", SLOW_COUNT, 1_000)
    mirror(first, "given up")
    waiting = subprocess.Popen(
        [WARRENCTL, "--url", second.control.url, "sync_queue", "given up"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    eventually(lambda: shown(second, "given up").get("state") == "syncing", "it has begun")
    assert act(second, "given up", "cancel_sync") == 204
    _, told = waiting.communicate(timeout=60)
    assert (waiting.returncode, "was cancelled" in told) == (69, True)


def test_automatic_by_a_change_of_policy_and_then_all_messages_survive_the_master(
    slow_cluster: ClusterOfNodes,
) -> None:
    """5-03, 5-05, 5-06: some of them with a client, before the mirrors came."""
    first, second, third = slow_cluster.nodes
    fill(third, "auto", 40, 10)
    consumer = third.channel()
    for _ in range(2):
        consumer.basic_get("auto", auto_ack=False)
    mirror(first, "auto")
    mirror(second, "auto", **{"ha-sync-mode": "automatic"})
    eventually(lambda: has_ended(third, "auto", "complete"), "all mirrors have everything")
    eventually(lambda: _is_in_sync(third, "auto"), "the record says so")
    third.kill()
    eventually(lambda: _count(second, "auto") == 40, "all of them at the new master")


def test_publishers_wait_for_the_blocking_original_and_what_they_sent_is_there_after_it(
    tmp_path: Path,
) -> None:
    with running(tmp_path, BLOCKING) as cluster:
        first, second, third = cluster.nodes
        fill(first, "held", SLOW_COUNT, 1_000)
        mirror(first, "held")
        begin_sync(first, second, "held")
        channel = third.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "held", b"meanwhile", pika.BasicProperties(delivery_mode=2))
        assert has_ended(first, "held", "complete"), "it was confirmed before the end"
        eventually(lambda: _is_in_sync(first, "held"), "the record says so")
        first.kill()
        eventually(lambda: _count(second, "held") == SLOW_COUNT + 1, "nothing is missing")


def _is_in_sync(leader: NodeProcess, queue: str) -> bool:
    """All three, by what a new master would go by."""
    lines = leader.log().splitlines()
    said = [line for line in lines if "copies in sync" in line and f"queue '{queue}'" in line]
    return bool(said) and all(f"n{i}@localhost" in said[-1] for i in (1, 2, 3))


def _count(node: NodeProcess, queue: str) -> int:
    """-1 while it has no home."""
    answer = node.api.get("queues", "/", queue)
    return int(answer.body["messages"]) if answer.status == 200 else -1


def test_sync_queue_draws_a_bar_at_a_terminal_and_fails_when_it_is_cancelled(
    slow_cluster: ClusterOfNodes,
) -> None:
    first, second, _ = slow_cluster.nodes
    fill(first, "cancelled", SLOW_COUNT, 1_000)
    mirror(first, "cancelled")
    eventually(lambda: shown(first, "cancelled").get("slave_nodes"), "there are mirrors")
    terminal, other_end = pty.openpty()
    url = f"http://127.0.0.1:{second.http_port}"
    waiting = subprocess.Popen(
        [WARRENCTL, "--url", url, "sync_queue", "cancelled"],
        stdout=subprocess.DEVNULL,
        stderr=other_end,
    )
    os.close(other_end)
    drawn = b""
    while b" of 600 messages" not in drawn:
        drawn += os.read(terminal, 1_000)
    assert b"[" in drawn
    second.control.ok("cancel_sync_queue cancelled")
    with contextlib.suppress(OSError):  # the other end is closed when the command is over
        while data := os.read(terminal, 1_000):
            drawn += data
    os.close(terminal)
    assert waiting.wait(60) == 69
    assert b"was cancelled, or did not begin" in drawn
