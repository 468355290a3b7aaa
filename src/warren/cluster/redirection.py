"""Redirection: clients of this node are moved to the master of a mirrored queue, wait, or give up.

`masters` says where the master is; here clients are told, and the time is kept that they wait.
"""

from __future__ import annotations

from typing import Final

from warren.cluster.actions import AwaitMaster, LoseMaster, Redirect
from warren.cluster.effects import Effects
from warren.cluster.masters import Place, homes_of
from warren.cluster.masters import locate as locate_master
from warren.cluster.view import ClusterView
from warren.model.records import QueueName

MASTERLESS_MS_MAX: Final = 60_000
"""Clients wait so long for a mirrored queue without master, as RabbitMQ's channels do."""


class Redirection:
    def __init__(self, view: ClusterView, effects: Effects) -> None:
        self.is_loaded = False
        """False while there are no queues yet that could be moved."""
        self._view = view
        self._effects = effects
        self._masterless: dict[QueueName, int] = {}
        """Timers of mirrored queues whose clients wait for a master."""

    def locate(self, name: QueueName, missing_at: str = "") -> None:
        """Tell clients of this node where a mirrored queue of another node is."""
        record = self._view.topology.record_of(name)
        if not self.is_loaded:
            return
        if record is None or self._view.topology.is_here(name):
            self._stop_waiting(name)
            return
        where = locate_master(self._view, record, missing_at)
        match where.place:
            case Place.ELSEWHERE:
                self._stop_waiting(name)
                self._effects.add(Redirect(name, where.node, where.is_mirrored))
            case Place.AWAITED:
                if name not in self._masterless:
                    timer = self._effects.call_later(MASTERLESS_MS_MAX, lambda: self._lose(name))
                    self._masterless[name] = timer
                self._effects.add(AwaitMaster(name))
            case Place.LOST:
                self._lose(name)

    def _stop_waiting(self, name: QueueName) -> None:
        timer = self._masterless.pop(name, None)
        if timer is not None:
            self._effects.cancel(timer)

    def _lose(self, name: QueueName) -> None:
        self._stop_waiting(name)
        record = self._view.topology.record_of(name)
        homes = () if record is None else homes_of(self._view, record)
        self._effects.add(LoseMaster(name, homes))
