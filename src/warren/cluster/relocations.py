"""Relocations: masters that move because `rebalance` wants it, though no policy says so.

A destination that has no copy gets one, one that lacks messages is synchronised, and only then the
master is handed over. A relocation that does not succeed in time is forgotten: the queue stays.

Only the master's node relocates, and forgets about it when it does not lead any more. If it kept
the relocation and the queue came back in time, it would send it away again; and two nodes with
opposite relocations would pass the queue to and fro.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from warren.cluster.effects import Effects
from warren.cluster.view import ClusterView
from warren.model.records import QueueName
from warren.replication.group_record import node_of

RELOCATION_MS_MAX: Final = 60_000


class _Relocation(NamedTuple):
    node: str
    timer: int


class Relocations:
    """`replan` is called with a queue whose relocation has begun or is forgotten."""

    def __init__(
        self, view: ClusterView, effects: Effects, replan: Callable[[QueueName], None]
    ) -> None:
        self._view = view
        self._effects = effects
        self._replan = replan
        self._wanted: dict[QueueName, _Relocation] = {}

    def begin(self, name: QueueName, node: str) -> None:
        self.forget(name)
        timer = self._effects.call_later(RELOCATION_MS_MAX, lambda: self._expire(name))
        self._wanted[name] = _Relocation(node, timer)
        self._replan(name)

    def destination_of(self, name: QueueName) -> str:
        """Node to which the queue's master is to move; empty if there is none, or it has moved."""
        relocation, group = self._wanted.get(name), self._view.group_of(name)
        if relocation is None:
            return ""
        is_running = relocation.node in self._view.running_nodes
        if group is None or not is_running or node_of(group.leader) == relocation.node:
            self.forget(name)
            return ""
        return relocation.node

    def _expire(self, name: QueueName) -> None:
        self._wanted.pop(name, None)
        self._replan(name)

    def forget(self, name: QueueName) -> None:
        relocation = self._wanted.pop(name, None)
        if relocation is not None:
            self._effects.cancel(relocation.timer)
