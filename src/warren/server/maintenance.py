"""Taking a node out of service and back: maintenance mode, and a reset.

A drained node has no clients and gets no new queues. Other nodes take over the queues that they
have a copy of, which RabbitMQ leaves to the moment when the node stops; all others stay, and are
served to clients of other nodes. As in RabbitMQ, it is in service again after a restart.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from warren.metadata.store import MetadataUnavailable
from warren.model.logs import EventLog
from warren.server.sockets import CannotListenError

if TYPE_CHECKING:
    from warren.server.cluster import Cluster
    from warren.server.listener import AmqpListener, ConnectionRegistry

DRAIN_REASON: Final = "Node was put into maintenance mode"

_log = EventLog("node")


class Maintenance:
    def __init__(
        self, listener: AmqpListener, connections: ConnectionRegistry, cluster: Cluster | None
    ) -> None:
        self.is_drained = False
        self._listener = listener
        self._connections = connections
        self._cluster = cluster

    async def drain(self) -> None:
        if self.is_drained:
            return
        _log.warning("node is put into maintenance mode", connections=len(self._connections))
        self._listener.suspend()
        self.is_drained = True
        await self._connections.visit(lambda connection: connection.shut_down(DRAIN_REASON))
        if self._cluster is not None:
            await self._cluster.drain()

    async def revive(self) -> None:
        """Raises CannotListenError if somebody has taken an address meanwhile."""
        if not self.is_drained:
            return
        await self._listener.resume()
        self.is_drained = False
        if self._cluster is not None:
            self._cluster.revive()
        _log.warning("node is in service again")

    async def suspend_listeners(self, is_suspended: bool) -> None:
        """Accept no more AMQP clients, or accept them again; raises CannotListenError.

        Open connections stay. A drained node stays drained if its listeners are resumed.
        """
        if is_suspended:
            self._listener.suspend()
        else:
            await self._listener.resume()
        state = "suspended" if is_suspended else "resumed"
        _log.warning(f"listeners are {state}", connections=len(self._connections))
        if self._cluster is not None:
            self._cluster.states.tell()

    async def retire(self, is_forced: bool) -> None:
        """Leave the cluster for good, before what the node has on its disk is deleted.

        Raises MetadataUnavailable if the cluster cannot be told, unless that is all the same.
        """
        await self.drain()
        if self._cluster is None:
            return
        try:
            await self._cluster.states.tell_everybody()
            await self._cluster.membership.retire()
        except MetadataUnavailable:
            if not is_forced:
                with suppress(CannotListenError):
                    await self.revive()
                raise
            _log.warning("node leaves without telling its cluster")
