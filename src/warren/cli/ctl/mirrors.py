"""Whether the node may be stopped: checks of rabbitmq-queues and rabbitmq-upgrade for mirrors."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.cli.ctl.api import Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.verbs import Family, Verb, error

AWAIT_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.5


def check_if_node_is_mirror_sync_critical(call: Call) -> Answer:
    call.announce(
        "Checking if there are classic mirrored queues that would lose their only synchronised "
        f"replica if node {call.node} is stopped ..."
    )
    if queues := _critical(call):
        raise error("\n".join(f"{_name(q)} {_loss(call.node)}" for q in queues))
    return (
        f"Node {call.node} reported no classic mirrored queues without synchronised mirrors online"
    )


def await_online_synchronized_mirror(call: Call) -> Answer:
    call.announce(
        "Will wait for a synchronised mirror be online for all classic mirrored queues ..."
    )
    deadline = time.monotonic() + (call.timeout_s or AWAIT_TIMEOUT_S)
    while _critical(call):
        if time.monotonic() >= deadline - POLL_S:
            raise error(
                "time is up, no synchronised mirror came online for at least some classic "
                "mirrored queues"
            )
        time.sleep(POLL_S)
    return None


def _critical(call: Call) -> list[dict[str, Any]]:
    """Queues led by the node that nobody else has all of."""
    try:
        call.api.get("health", "checks", "node-is-mirror-sync-critical", **call.about_node)
    except Refusal as refusal:
        if "queues" not in refusal.facts:
            raise
        return list(refusal.facts["queues"])
    return []


def _name(queue: dict[str, Any]) -> str:
    return str(queue["readable_name"])


def _loss(node: str) -> str:
    return f"would lose its only synchronised replica (master) if node {node} is stopped"


VERBS: Final = (
    Verb(
        name="check_if_node_is_mirror_sync_critical",
        family=Family.MONITORING,
        summary="Fails if stopping the node would lose what is in mirrored queues",
        run=check_if_node_is_mirror_sync_critical,
    ),
    Verb(
        name="await_online_synchronized_mirror",
        family=Family.REPLICATION,
        summary="Waits until each mirrored queue of the node has a synchronised mirror",
        run=await_online_synchronized_mirror,
        timeout_s=AWAIT_TIMEOUT_S,
    ),
)
