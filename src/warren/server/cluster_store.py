"""The store of a cluster's node: a change returns when all living nodes have applied it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from warren.cluster.applied import AppliedRevisions
from warren.metadata.etcd import EtcdStore
from warren.metadata.etcd_address import EtcdAddress
from warren.metadata.store import Check, LeaseLost, Operation
from warren.server.logs import EventLog

# A node that has a session but cannot be heard is not waited for longer: a client is waiting too.
APPLIED_S_MAX: Final = 8.0
LEASE_RETRY_S: Final = 0.1

_log = EventLog("cluster")


class ClusterStore(EtcdStore):
    def __init__(self, address: EtcdAddress, namespace: str, patience_s: float) -> None:
        super().__init__(address, namespace, patience_s)
        self.applied = AppliedRevisions(asyncio.get_running_loop().create_future)
        self.is_leaving = False
        """The others have stopped talking to this node, or are about to."""

    async def transact(self, checks: Sequence[Check], changes: Sequence[Operation]) -> bool:
        try:
            is_done = await super().transact(checks, changes)
        except LeaseLost:
            # Whoever tries again finds news of it only after a while.
            await asyncio.sleep(LEASE_RETRY_S)
            raise
        if is_done and changes and not self.is_leaving:
            await self.applied_everywhere()
        return is_done

    async def tell(self, change: Operation, *checks: Check) -> bool:
        """Make a change that nobody has to have applied before we go on."""
        return await super().transact(checks, [change])

    async def applied_everywhere(self) -> None:
        """All nodes know what this one knows."""
        revision = self.revision
        try:
            async with asyncio.timeout(APPLIED_S_MAX):
                await self.applied.wait(revision)
        except TimeoutError:
            behind = ",".join(self.applied.behind(revision))
            _log.warning("nodes have not applied a change in time", nodes=behind)
