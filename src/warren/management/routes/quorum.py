"""/api/queues/quorum: members of quorum queues, seen and changed, with the paths of RabbitMQ 3.12.

RabbitMQ's answers to `grow` and `shrink` are empty; these say what became of each queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, VHOST_USERS
from warren.management.errors import Refusal, bad_request, no_such_object, not_found
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.policy_reports import has_queue
from warren.management.routes.queues import find_queue, master_of_queue
from warren.management.views.copies import show_ring
from warren.metadata.store import MetadataError
from warren.model.records import QueueRecord
from warren.model.regular_expressions import InvalidPattern, require_pattern
from warren.policy.quorum_queues import is_quorum
from warren.server.quorum_members import LastMember, QuorumMembers, members_of

STRATEGIES: Final = ("all", "even")
CHANGES_AT_ONCE: Final = 16
_TIMED_OUT: Final = "error: the operation timed out and may not have been completed"
_LAST: Final = "error: the last node cannot be removed"


async def _status(call: Call) -> list[JsonObject]:
    queue = find_queue(call)
    if queue is None:
        raise no_such_object()
    _require_quorum(queue.record)
    ring = show_ring(queue, call.node)
    if not ring["is_mirrored"]:
        return [_row(call.node.config.name, "leader", True, 0, 0)]
    present = {member["node"] for member in ring["members"] if member["is_live"]}
    cluster = call.node.cluster
    nodes = () if cluster is None else members_of(cluster.view, queue.record)
    rows = [
        _row(
            member["node"],
            "leader" if member["is_leader"] else "follower",
            member["is_in_sync"],
            member["lacking"],
            ring["epoch"],
        )
        for member in ring["members"]
        if member["is_live"]
    ]
    absent = [node for node in nodes if node not in present]
    return rows + [_row(node, "noproc", False, None, ring["epoch"]) for node in absent]


def _row(node: str, state: str, is_in_sync: bool, lacking: int | None, epoch: int) -> JsonObject:
    return {
        "Node Name": node,
        "Raft State": state,
        "In Sync": is_in_sync,
        "Lacking": lacking,
        "Epoch": epoch,
    }


def _require_quorum(record: QueueRecord) -> None:
    if not is_quorum(record.arguments):
        raise Refusal(400, "classic_queue_not_supported", f"{record} is not a quorum queue")


async def _add(call: Call) -> None:
    record = _record_of(call)
    node = (await call.body()).text("node", "")
    if node not in _running(call):
        raise Refusal(400, "node_not_running", f"node {node} does not run")
    result = await _added(call, record, node)
    if result != "ok":
        raise bad_request(result)


async def _delete(call: Call) -> None:
    record = _record_of(call)
    node = call.query.get("node") or (await call.body()).text("node", "")
    result = await _removed(call, record, node)
    if result != "ok":
        raise bad_request(result)


def _record_of(call: Call) -> QueueRecord:
    queue = find_queue(call)
    if queue is None:
        raise not_found("no such queue")
    _require_quorum(queue.record)
    return queue.record


def _running(call: Call) -> list[str]:
    cluster = call.node.cluster
    return [call.node.config.name] if cluster is None else cluster.running_nodes


async def _grow(call: Call) -> list[JsonObject]:
    node = call.parts["node"]
    if node not in _running(call):
        raise Refusal(400, "node_not_running", f"node {node} does not run")
    body = await call.body() if await call.raw_body() else None
    given = {} if body is None else {k: str(body.get(k) or "") for k in ("strategy", *_PATTERNS)}
    strategy = given.get("strategy") or "all"
    if strategy not in STRATEGIES:
        raise bad_request(f"strategy {strategy} is not one of {', '.join(STRATEGIES)}")
    records = [
        record
        for record in _quorum_queues(call, given)
        if node not in (members := _members(call, record))
        and (strategy == "all" or len(members) % 2 == 0)
    ]
    return await _change_all(call, records, lambda record: _added(call, record, node))


async def _shrink(call: Call) -> list[JsonObject]:
    node = call.parts["node"]
    records = [r for r in _quorum_queues(call, {}) if node in _members(call, r)]
    return await _change_all(call, records, lambda record: _removed(call, record, node))


_PATTERNS: Final = ("vhost_pattern", "queue_pattern")


def _quorum_queues(call: Call, patterns: dict[str, str]) -> list[QueueRecord]:
    try:
        in_vhost, named = (require_pattern(patterns.get(key) or ".*") for key in _PATTERNS)
    except InvalidPattern as error:
        raise bad_request(f"pattern is invalid: {error.reason}") from None
    return [
        queue.record
        for vhost in call.broker.vhosts.values()
        if in_vhost.require(vhost.name.encode())
        for queue in vhost.queues.values()
        if is_quorum(queue.record.arguments) and named.require(queue.record.name.encode())
    ]


def _members(call: Call, record: QueueRecord) -> tuple[str, ...]:
    cluster = call.node.cluster
    return (call.node.config.name,) if cluster is None else members_of(cluster.view, record)


async def _change_all(
    call: Call, records: list[QueueRecord], change: Callable[[QueueRecord], Awaitable[str]]
) -> list[JsonObject]:
    """Change the members of each, a few at a time, and say what became of it."""
    rows: list[JsonObject] = []
    for first in range(0, len(records), CHANGES_AT_ONCE):
        some = records[first : first + CHANGES_AT_ONCE]
        for record, result in zip(some, await asyncio.gather(*map(change, some)), strict=True):
            size = len(_members(call, record))
            rows.append(
                {"vhost": record.vhost, "name": record.name, "size": size, "result": result}
            )
    return rows


async def _added(call: Call, record: QueueRecord, node: str) -> str:
    cluster = call.node.cluster
    if cluster is None:
        return "ok"
    try:
        return "ok" if await QuorumMembers(cluster).add(record, node) else _TIMED_OUT
    except MetadataError as error:
        return f"error: {error}"


async def _removed(call: Call, record: QueueRecord, node: str) -> str:
    cluster = call.node.cluster
    if cluster is None:
        return _LAST if node == call.node.config.name else "ok"
    try:
        return "ok" if await QuorumMembers(cluster).remove(record, node) else _TIMED_OUT
    except LastMember:
        return _LAST
    except MetadataError as error:
        return f"error: {error}"


RESOURCES: Final = (
    Resource(
        path="/queues/quorum/{vhost}/{queue}/status",
        rule=VHOST_USERS,
        exists=has_queue,
        get=_status,
        node_of=master_of_queue,
    ),
    Resource(
        path="/queues/quorum/{vhost}/{queue}/replicas/add",
        rule=ADMINISTRATORS,
        exists=has_queue,
        post=_add,
    ),
    Resource(
        path="/queues/quorum/{vhost}/{queue}/replicas/delete",
        rule=ADMINISTRATORS,
        exists=has_queue,
        delete=_delete,
    ),
    Resource(path="/queues/quorum/replicas/on/{node}/grow", rule=ADMINISTRATORS, post=_grow),
    Resource(path="/queues/quorum/replicas/on/{node}/shrink", rule=ADMINISTRATORS, delete=_shrink),
)
