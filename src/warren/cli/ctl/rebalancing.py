"""Spreading the masters of replicated queues over the nodes: `rebalance` of rabbitmq-queues."""

from __future__ import annotations

from typing import Final

from warren.cli.ctl.api import Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table
from warren.cli.ctl.verbs import Argument, Exit, Family, Kind, Option, Verb, error

_TYPES: Final = ("all", "classic", "quorum")
_COLUMNS: Final = (
    "Node name",
    "Number of quorum queues",
    "Number of replicated classic queues",
)


def rebalance(call: Call) -> Answer:
    kind = call.arguments[0]
    if kind not in _TYPES:
        reason = f"type {kind} is not supported. Try one of {', '.join(_TYPES)}."
        raise error(reason, Exit.UNAVAILABLE)
    call.announce(f"Re-balancing leaders of {kind} queues...")
    body = {"type": kind, "vhost": call.text("vhost-pattern"), "queue": call.text("queue-pattern")}
    try:
        balanced = call.api.post("warren", "rebalance", body=body)
    except Refusal as refusal:
        if refusal.kind != "rebalance_in_progress":
            raise
        raise error("rebalance_in_progress", Exit.UNAVAILABLE) from refusal
    quorum = balanced["quorum"]
    rows = [(node, quorum.get(node, 0), count) for node, count in balanced["masters"].items()]
    return Table(_COLUMNS, [dict(zip(_COLUMNS, row, strict=True)) for row in rows])


def post_upgrade(call: Call) -> Answer:
    call.announce("Executing post upgrade tasks...\nRebalancing queue masters...")
    return rebalance(Call(call.verb, ["all"], {**call.options, "quiet": True}))


VERBS: Final = (
    Verb(
        name="post_upgrade",
        family=Family.REPLICATION,
        summary="Does what is left to do after an upgrade: rebalances all queues",
        run=post_upgrade,
    ),
    Verb(
        name="rebalance",
        family=Family.REPLICATION,
        summary="Spreads the masters of replicated queues over the nodes in service",
        run=rebalance,
        arguments=(Argument("type", "all, classic or quorum"),),
        options=(
            Option("vhost-pattern", "only in virtual hosts that it matches", Kind.TEXT),
            Option("queue-pattern", "only queues whose names it matches", Kind.TEXT),
        ),
    ),
)
