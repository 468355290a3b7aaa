"""The store of a cluster's node: a change returns when all living nodes have applied it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from warren.cluster.topology_barrier import TopologyBarrier
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.store import Check, LeaseLost, Operation
from warren.metadata.watchers import OnFault
from warren.model.logs import EventLog

# A node that has a session but cannot be heard is not waited for longer: a client is waiting too.
APPLIED_S_MAX: Final = 8.0
LEASE_RETRY_S: Final = 0.1

_log = EventLog("cluster")


class ClusterStore(EtcdStore):
    def __init__(
        self,
        address: EtcdAddress,
        namespace: str,
        patience_s: float,
        node: str,
        on_fault: OnFault,
    ) -> None:
        super().__init__(address, namespace, patience_s, node, on_fault)
        self.applied = TopologyBarrier(asyncio.get_running_loop().create_future)
        self.is_leaving = False
        """The others have stopped talking to this node, or are about to."""

    def leave(self) -> None:
        """Nobody has to be waited for any more; who does so already is not kept either."""
        self.is_leaving = True
        self.applied.stop_waiting()

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        try:
            revision = await self.commit(checks, changes)
        except LeaseLost:
            # Whoever tries again finds news of it only after a while.
            await asyncio.sleep(LEASE_RETRY_S)
            raise
        if revision and not self.is_leaving:
            await self._applied_everywhere(revision)
        return revision is not None

    async def tell(self, change: Operation, *checks: Check) -> bool:
        """Make a change that nobody has to have applied before we go on."""
        return await self.commit(checks, [change]) is not None

    async def _applied_everywhere(self, revision: int) -> None:
        if not self.applied.is_anyone_behind(revision):
            return
        try:
            async with asyncio.timeout(APPLIED_S_MAX):
                await self.applied.wait(revision)
        except TimeoutError:
            behind = ",".join(self.applied.behind(revision))
            _log.warning("nodes have not applied a change in time", nodes=behind)
