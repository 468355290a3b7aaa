"""`cluster_partition_handling`: RabbitMQ's four ways to live with a cluster that has split.

Ours does not split. Which nodes there are, and what they agree on, is decided by a majority of
etcd's members; a node that cannot reach it stops confirming and delivering until it can again, and
then goes on where it was. That is what `pause_minority` is meant to do, so it is the default. The
others are accepted, so that a configuration of RabbitMQ's loads, and mean the same: `ignore` and
`autoheal` promise to lose messages that were confirmed, which nobody needs, and the nodes of
`pause_if_all_down` have no vote here.
"""

from __future__ import annotations

from typing import Final

from warren.model.logs import EventLog

PAUSE_MINORITY: Final = "pause_minority"
STRATEGIES: Final = ("ignore", PAUSE_MINORITY, "pause_if_all_down", "autoheal")

_log = EventLog("cluster")


def explain_strategy(strategy: str) -> None:
    if strategy != PAUSE_MINORITY:
        _log.warning(
            f"cluster_partition_handling = {strategy} means the same as {PAUSE_MINORITY}: this "
            "cluster does not split, nodes that cannot reach the majority of etcd pause"
        )
