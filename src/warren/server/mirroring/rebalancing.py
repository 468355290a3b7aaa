"""Spreading masters over the nodes, for whoever asks: one at a time in the whole cluster.

Who rebalances holds a lock in the store, with the lease of its node. It has asked all nodes what
they lead and told them what to move (`management/routes/rebalancing.py`); here it waits until that
has happened, or has taken too long.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from warren.metadata.keys import lock_key
from warren.metadata.store import Check, Delete, Put
from warren.mirror.group_record import node_of
from warren.model.logs import EventLog
from warren.policy.rebalancing import Move
from warren.server.mirroring.relocating import RELOCATION_S_MAX

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors

_KEY: Final = lock_key("rebalance")
_log = EventLog("mirror")


class InProgress(Exception):
    """Somebody else is rebalancing."""


class Rebalancing:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors

    async def begin(self) -> None:
        """Raises InProgress."""
        put = Put(_KEY, self._mirrors.cluster.name.encode(), self._mirrors.broker.lease)
        if not await self._mirrors.store.transact([Check(_KEY, 0)], [put]):
            raise InProgress

    async def finish(self, moves: Sequence[Move]) -> None:
        """Wait for what has been planned, and let others rebalance."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(RELOCATION_S_MAX):
                    while not self._are_done(moves):
                        await self._mirrors.keeper.until_changed()
        finally:
            await self._mirrors.store.transact([], [Delete(_KEY)])
        _log.info("masters are rebalanced", moved=len(moves))

    def _are_done(self, moves: Sequence[Move]) -> bool:
        return all(self._is_done(move) for move in moves)

    def _is_done(self, move: Move) -> bool:
        """Also if the queue is not there any more."""
        group, _ = self._mirrors.groups.records.get((move.vhost, move.queue), (None, 0))
        return group is None or (node_of(group.leader) == move.node and group.is_live(group.leader))

    def masters(self) -> dict[str, int]:
        """How many replicated queues each node leads."""
        leaders = Counter(
            node_of(group.leader) for group, _ in self._mirrors.groups.records.values()
        )
        return {node: leaders[node] for node in self._mirrors.cluster.running_nodes}
