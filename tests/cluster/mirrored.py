"""A cluster for tests of mirrored queues, whose nodes are killed and come back."""

from __future__ import annotations

import base64
import contextlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pika
from pika.adapters.blocking_connection import BlockingChannel

from cluster.nodes import ClusterOfNodes, NodeProcess, count_of, eventually
from warren.metadata.keys import group_key
from warren.replication.group_record import GroupRecord, decode_record

EVERYWHERE: Final = {"ha-mode": "all"}
CANARY: Final = "mirrored-canary"
"""Empty, so that it is in sync wherever there is a copy: a sign that nodes have their links."""


class MirroredCluster(ClusterOfNodes):
    """Queues called `mirrored...` have copies on all nodes unless a test says otherwise."""

    def start(self) -> None:
        super().start()
        self.mirror("all", "^mirrored", EVERYWHERE)
        self.nodes[0].channel().queue_declare(CANARY, durable=True)

    def mirror(
        self, policy: str, pattern: str, definition: dict[str, Any], priority: int = 0
    ) -> None:
        body = {"pattern": pattern, "definition": definition, "priority": priority}
        api = self.living[0].api
        api.must(api.put("policies", "/", policy, body={**body, "apply-to": "queues"}))

    def stop_mirroring(self, policy: str) -> None:
        api = self.living[0].api
        api.must(api.delete("policies", "/", policy))

    @property
    def living(self) -> list[NodeProcess]:
        return [node for node in self.nodes if not node.has_ended]

    def start_all(self) -> None:
        """Those that are down come back, together, and have their copies."""
        down = [node for node in self.nodes if node.has_ended]
        for node in down:
            node.launch()
        for node in down:
            node.await_ready()
        self.await_in_sync(CANARY)

    # What the store says about a queue's copies.

    def group(self, queue: str) -> GroupRecord | None:
        found = self._ask_store("range", group_key("/", queue)).get("kvs", [])
        return decode_record(base64.b64decode(found[0]["value"])) if found else None

    def has_in_store(self, prefix: str) -> bool:
        end = base64.b64encode(f"/warren/default/data/{prefix}\xff".encode()).decode()
        return bool(self._ask_store("range", prefix, range_end=end).get("kvs"))

    def put_in_store(self, key: str, value: bytes) -> None:
        """As a node would."""
        self._ask_store("put", key, value=base64.b64encode(value).decode())

    def delete_from_store(self, key: str) -> None:
        self._ask_store("deleterange", key)

    def _ask_store(self, what: str, key: str, **more: str) -> Any:
        encoded = base64.b64encode(f"/warren/default/data/{key}".encode()).decode()
        request = urllib.request.Request(
            f"http://{self.etcd.members[0].endpoint}/v3/kv/{what}",
            json.dumps({"key": encoded, **more}).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def in_sync(self, queue: str) -> set[str]:
        """Names of the living nodes whose copies lack nothing."""
        group = self.group(queue)
        living = {node.name for node in self.living}
        members = () if group is None else group.live
        return {m.node for m in members if m.id in group.insync} & living  # type: ignore[union-attr]

    def await_in_sync(self, *queues: str) -> None:
        everybody = {node.name for node in self.living}
        for queue in queues:
            eventually(lambda queue=queue: self.in_sync(queue) == everybody, f"{queue} in sync")

    def master_node_of(self, queue: str) -> NodeProcess | None:
        """Where its master is; None while it has none that lives."""
        group = self.group(queue)
        leader = None if group is None else group.find(group.leader)
        if leader is None or leader.is_dead:
            return None
        return next((node for node in self.living if node.name == leader.node), None)


@contextlib.contextmanager
def running_mirrored(directory: Path) -> Iterator[MirroredCluster]:
    cluster = MirroredCluster(directory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def publish_all(
    channel: BlockingChannel, queue: str, bodies: list[bytes], **properties: Any
) -> None:
    for body in bodies:
        options = {"delivery_mode": 2, **properties}
        channel.basic_publish("", queue, body, pika.BasicProperties(**options))


def drain(channel: BlockingChannel, queue: str) -> list[tuple[bytes, bool]]:
    """All that is ready, acknowledged: body and whether it is said to be redelivered."""
    there = []
    for _ in range(count_of(channel, queue)):
        method, _, body = channel.basic_get(queue, auto_ack=True)
        assert method is not None
        there.append((body, method.redelivered))
    return there


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def refusal_of(attempt: Callable[[], object]) -> int:
    """The code of the exception that closes the channel; 0 if there is none."""
    try:
        attempt()
    except pika.exceptions.ChannelClosedByBroker as closed:
        return int(closed.reply_code)
    return 0
