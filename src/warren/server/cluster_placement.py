"""Placement in a cluster: the answers to a broker's questions, from its view of the cluster."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from warren.broker.placement import NO_SIBLINGS, WithExchanges
from warren.broker.queue_host import QueueFactory
from warren.cluster.copy_planning import is_as_wanted
from warren.cluster.founding import founding_group
from warren.cluster.lifetimes import outlives_master
from warren.cluster.masters import is_masterless, locate
from warren.cluster.placement import Locator, LocatorDefaults, locator_of, master_for
from warren.cluster.sessions import SESSION_TTL_S
from warren.metadata.keys import group_key, queue_key
from warren.metadata.store import (
    CancelWatch,
    Lease,
    MetadataError,
    MetadataStore,
    Put,
    WatchCallback,
)
from warren.model.errors import AmqpError
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.policy.quorum_queues import copies_wished, group_size_of, is_quorum
from warren.policy.wanted_copies import nodes_for_masters
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings
from warren.replication.group_record import encode_record
from warren.server.cluster_shell import ClusterShell
from warren.server.context import ConnectionContext

_log = EventLog("queue")

DECLARE_S_MAX: Final = 5.0
"""A declare does not wait longer for its mirrors: one of the nodes may be in trouble."""


class ClusterPlacement:
    """The broker is made first, the cluster around it after: `use` completes this object."""

    def __init__(self, factory: QueueFactory, locators: LocatorDefaults) -> None:
        self.lease_ttl_s = SESSION_TTL_S
        self.ends_exchanges_with_node = False
        self._factory = factory
        self._locators = locators
        self._shell: ClusterShell | None = None
        self._context: ConnectionContext | None = None

    def use(self, shell: ClusterShell, context: ConnectionContext) -> None:
        self._shell, self._context = shell, context

    @property
    def shell(self) -> ClusterShell:
        assert self._shell is not None, "the cluster is made before anything is declared"
        return self._shell

    def watch(self, store: MetadataStore, apply: WatchCallback) -> CancelWatch:
        self.shell.apply_first(apply)
        return lambda: self.shell.apply_first(None)

    def make_queue(self, record: QueueRecord, settings: QueueSettings) -> AbstractQueue:
        view = self.shell.view
        if view.master_of(record) == view.name:
            return self._factory.make(record, settings)
        return self.shell.moves.make_remote(record, settings, locate(view, record))

    def place(
        self,
        record: QueueRecord,
        policy: Mapping[str, object],
        siblings: Mapping[str, int] = NO_SIBLINGS,
    ) -> str:
        """Exclusive queues live and die with a connection, so they stay where that is."""
        view = self.shell.view
        locator = locator_of(record, policy, self._locators)
        if record.exclusive or locator is Locator.CLIENT_LOCAL:
            return view.name
        masters = view.masters()
        candidates = nodes_for_masters(copies_wished(record, policy), view.nodes_in_service)
        counts = {node: masters[node] for node in candidates}
        # The next partition goes to a node that has the fewest of them, whatever else it leads.
        fewest = min((siblings.get(node, 0) for node in counts), default=0)
        if locator is Locator.MIN_MASTERS:
            counts = {n: count for n, count in counts.items() if siblings.get(n, 0) == fewest}
        return master_for(locator, view.name, counts, random.choice)

    def lease_of(self, node: str) -> Lease | None:
        session = self.shell.view.sessions.get(node)
        return None if session is None else Lease(session.lease, SESSION_TTL_S)

    def outlives_master(self, record: QueueRecord) -> bool:
        return outlives_master(self.shell.view, record)

    def is_masterless(self, record: QueueRecord) -> bool:
        return is_masterless(self.shell.view, record)

    def founding(self, record: QueueRecord) -> Sequence[Put]:
        """Return the record of the group that a new queue begins with, if it begins with one."""
        shell, key = self.shell, queue_key(record.vhost, record.name)
        group = founding_group(
            shell.view,
            record,
            shell.new_token(),
            shell.choose,
            lambda nodes: shell.are_clean(key, nodes),
        )
        if group is None:
            return ()
        return [Put(group_key(record.vhost, record.name), encode_record(group))]

    def companions(self, vhost: str, queue: str) -> Sequence[str]:
        return self.shell.view.group_keys(vhost, queue)

    async def until_ready(self, *records: QueueRecord) -> None:
        """A queue is declared when all that should hold copies do, or after a while."""
        names = [(record.vhost, record.name) for record in records]
        view = self.shell.view
        await self.shell.until(
            lambda: all(is_as_wanted(view, name) for name in names), DECLARE_S_MAX
        )
        for record in records:
            self._warn_if_alone(record)

    def _warn_if_alone(self, record: QueueRecord) -> None:
        view = self.shell.view
        group = view.group_of((record.vhost, record.name))
        if is_quorum(record.arguments) and group is not None and len(group.insync) == 1:
            _log.warning(
                "quorum queue has one copy", queue=str(record),
                wanted=group_size_of(record.arguments), nodes=len(view.running_nodes),
            )  # fmt: skip

    def exchanges_lost_bindings(self, vhost: WithExchanges) -> None:
        assert self._context is not None, "the cluster is made before anything is declared"
        self._context.spawn(_remove_unbound(vhost))


async def _remove_unbound(vhost: WithExchanges) -> None:
    """All nodes try to remove auto-delete exchanges without bindings; the first one succeeds."""
    with suppress(MetadataError, AmqpError):
        await vhost.remove_exchanges_without_bindings()
