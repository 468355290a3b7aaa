"""/api/warren/nodes/NODE/losses: what is lost for good if a node is forgotten or reset.

A queue is lost if no other node has a copy of it. A node that runs answers for itself, with how
many messages there are; of one that is down nobody knows that, only which queues it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.overview import known_node, node_in_path
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.queues.settings import QueueType, queue_type_of
from warren.replication.group_record import forget_node

NAMED_MAX: Final = 1_000
_GONE, _BEHIND = "gone", "behind"


def _known(call: Call) -> bool:
    """A node that is no member may have queues still: its removal was interrupted."""
    return known_node(call) or any(record.node == call.parts["node"] for record, _ in _queues(call))


async def _losses(call: Call) -> JsonObject:
    node = call.parts["node"]
    is_running = node == call.node.config.name
    found: dict[str, list[JsonObject]] = {_GONE: [], _BEHIND: []}
    for record, queue in _queues(call):
        if (fate := _fate(call, record, node)) is not None:
            found[fate].append(_shown(record, queue if is_running else None))
    gone = found[_GONE]
    streams = sum(queue["type"] == QueueType.STREAM.value for queue in gone)
    return {
        "node": node,
        "running": is_running,
        "queues": len(gone) - streams,
        "streams": streams,
        "messages": _sum(gone, "messages") if is_running else None,
        "bytes": _sum(gone, "bytes") if is_running else None,
        "everything": call.node.cluster is None,
        "named": sorted(gone, key=_size, reverse=True)[:NAMED_MAX],
        "unsynchronised": found[_BEHIND][:NAMED_MAX],
    }


def _queues(call: Call) -> Iterator[tuple[QueueRecord, Queue | None]]:
    for vhost in call.broker.vhosts.values():
        for queue in vhost.queues.values():
            yield queue.record, queue if isinstance(queue, Queue) else None


def _fate(call: Call, record: QueueRecord, node: str) -> str | None:
    """None if another node has all of the queue."""
    cluster = call.node.cluster
    if cluster is None:
        return _GONE
    group = cluster.view.group_of((record.vhost, record.name))
    if group is None:
        return _GONE if record.node == node else None
    after = forget_node(group, node)
    if after is None:
        return _GONE
    return None if set(group.insync) & set(after.insync) else _BEHIND


def _shown(record: QueueRecord, queue: Queue | None) -> JsonObject:
    backing = None if queue is None else queue.backing
    return {
        "vhost": record.vhost,
        "name": record.name,
        "type": queue_type_of(record.arguments).value,
        "messages": None if backing is None else backing.length + backing.unacked_count,
        "bytes": None if backing is None else backing.ready_bytes,
    }


def _sum(queues: list[JsonObject], field: str) -> int:
    return sum(queue[field] or 0 for queue in queues)


def _size(queue: JsonObject) -> tuple[int, str]:
    return queue["messages"] or 0, queue["name"]


RESOURCES: Final = (
    Resource(
        path="/warren/nodes/{node}/losses",
        rule=ADMINISTRATORS,
        exists=_known,
        get=_losses,
        node_of=node_in_path,
    ),
)
