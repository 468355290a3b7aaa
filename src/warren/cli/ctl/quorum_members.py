"""Quorum members: the verbs of rabbitmq-queues and rabbitmq-upgrade about quorum queues' copies."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.cli.ctl.api import NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table
from warren.cli.ctl.verbs import (
    Argument,
    Exit,
    Failure,
    Family,
    Kind,
    Option,
    Verb,
    error,
    no_such_queue,
)

AWAIT_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.5
_STATUS: Final = ("Node Name", "Raft State", "In Sync", "Lacking", "Epoch")
_RESULTS: Final = ("vhost", "name", "size", "result")


def quorum_status(call: Call) -> Answer:
    queue = call.arguments[0]
    call.announce(f"Status of quorum queue {queue} on node {call.node} ...")
    try:
        rows = call.api.get(*_path(call), "status")
    except Refusal as refusal:
        raise _failure(call, refusal, "Cannot get quorum status of a classic queue") from refusal
    return Table(_STATUS, [{column: _shown(row[column]) for column in _STATUS} for row in rows])


def _shown(value: object) -> object:
    return "" if value is None else value


def add_member(call: Call) -> Answer:
    queue, node = call.arguments
    call.announce(f"Adding a replica for queue {queue} on node {node}...")
    try:
        call.api.post(*_path(call), "replicas", "add", body={"node": node})
    except Refusal as refusal:
        raise _failure(call, refusal, "Cannot add members to a classic queue") from refusal
    return None


def delete_member(call: Call) -> Answer:
    queue, node = call.arguments
    call.announce(f"Removing a replica of queue {queue} on node {node}...")
    try:
        call.api.delete(*_path(call), "replicas", "delete", node=node)
    except Refusal as refusal:
        raise _failure(call, refusal, "Cannot delete members of a classic queue") from refusal
    return None


def _path(call: Call) -> tuple[str, ...]:
    return "queues", "quorum", call.vhost, call.arguments[0]


def _failure(call: Call, refusal: Refusal, not_a_quorum_queue: str) -> Failure:
    if isinstance(refusal, NotFound):
        return no_such_queue("not_found", call.arguments[0], call.vhost)
    if refusal.kind == "classic_queue_not_supported":
        return error(not_a_quorum_queue, Exit.DATA, Exit.UNAVAILABLE)
    if refusal.kind == "node_not_running":
        return error("node_not_running", hint=refusal.reason)
    return error(refusal.reason.removeprefix("error: "))


def grow(call: Call) -> Answer:
    node, strategy = call.arguments
    call.announce(f"Growing {strategy} quorum queues on {node}...")
    body = {
        "strategy": strategy,
        "vhost_pattern": call.text("vhost-pattern"),
        "queue_pattern": call.text("queue-pattern"),
    }
    path = ("queues", "quorum", "replicas", "on", node, "grow")
    try:
        return _results(call, call.api.post(*path, body=body))
    except Refusal as refusal:
        if refusal.kind == "node_not_running":
            raise error("node_not_running", hint=refusal.reason) from refusal
        raise


def shrink(call: Call) -> Answer:
    node = call.arguments[0]
    call.announce(f"Shrinking quorum queues on {node}...")
    path = ("queues", "quorum", "replicas", "on", node, "shrink")
    return _results(call, call.api.delete(*path))


def _results(call: Call, rows: list[dict[str, Any]]) -> Answer:
    if call.flag("errors-only"):
        rows = [row for row in rows if row["result"] != "ok"]
    return Table(_RESULTS, rows)


def check_if_node_is_quorum_critical(call: Call) -> Answer:
    call.announce(f"Checking if node {call.node} is critical for quorum of any quorum queues ...")
    if queues := _critical(call):
        raise error(
            "\n".join(
                f"{queue['readable_name']} would lose quorum if node {call.node} is stopped"
                for queue in queues
            )
        )
    return f"Node {call.node} reported no quorum queues with minimum quorum"


def await_online_quorum_plus_one(call: Call) -> Answer:
    call.announce("Will wait for a quorum + 1 of nodes to be online for all quorum queues ...")
    deadline = time.monotonic() + (call.timeout_s or AWAIT_TIMEOUT_S)
    while _critical(call):
        if time.monotonic() >= deadline - POLL_S:
            raise error(
                "time is up, no quorum + 1 online replicas came online for at least some quorum "
                "queues"
            )
        time.sleep(POLL_S)
    return None


def _critical(call: Call) -> list[dict[str, Any]]:
    """Quorum queues that only the node has all of."""
    try:
        call.api.get("health", "checks", "node-is-quorum-critical", **call.about_node)
    except Refusal as refusal:
        if "queues" not in refusal.facts:
            raise
        return list(refusal.facts["queues"])
    return []


_QUEUE: Final = Argument("queue", "name of a quorum queue")
_NODE: Final = Argument("node", "name of a node")
_ERRORS_ONLY: Final = Option("errors-only", "only list queues which reported an error")

VERBS: Final = (
    Verb(
        name="quorum_status",
        family=Family.REPLICATION,
        summary="Displays the copies of a quorum queue: where they are, and what they lack",
        run=quorum_status,
        arguments=(_QUEUE,),
    ),
    Verb(
        name="add_member",
        family=Family.REPLICATION,
        summary="Adds a copy of a quorum queue on the given node",
        run=add_member,
        arguments=(_QUEUE, _NODE),
    ),
    Verb(
        name="delete_member",
        family=Family.REPLICATION,
        summary="Removes the copy of a quorum queue on the given node",
        run=delete_member,
        arguments=(_QUEUE, _NODE),
    ),
    Verb(
        name="grow",
        family=Family.REPLICATION,
        summary="Adds a copy on the given node of all matching quorum queues",
        run=grow,
        arguments=(
            _NODE,
            Argument("strategy", "all, or even: of those with an even number"),
        ),
        options=(
            Option("vhost-pattern", "only in virtual hosts that it matches", Kind.TEXT),
            Option("queue-pattern", "only queues whose names it matches", Kind.TEXT),
            _ERRORS_ONLY,
        ),
    ),
    Verb(
        name="shrink",
        family=Family.REPLICATION,
        summary="Removes the copies of all quorum queues on the given node",
        run=shrink,
        arguments=(_NODE,),
        options=(_ERRORS_ONLY,),
    ),
    Verb(
        name="check_if_node_is_quorum_critical",
        family=Family.MONITORING,
        summary="Fails if stopping the node would leave a quorum queue without a whole copy",
        run=check_if_node_is_quorum_critical,
    ),
    Verb(
        name="await_online_quorum_plus_one",
        family=Family.REPLICATION,
        summary="Waits until the node can be stopped without quorum queues becoming unavailable",
        run=await_online_quorum_plus_one,
        timeout_s=AWAIT_TIMEOUT_S,
    ),
)
