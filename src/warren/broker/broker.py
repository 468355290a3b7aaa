"""The broker without its sockets: who may do what, and the virtual hosts, kept as stored.

At the start everything is read from the metadata store; from then on the store tells of every
change, whoever made it, and the broker passes it on to the virtual host that it is about.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin
from warren.auth.codec import decode_vhost
from warren.broker.activity import Activity
from warren.broker.event_exchange import EventExchange
from warren.broker.events import EventBus
from warren.broker.parameter_operations import ParameterOperations
from warren.broker.policy_operations import PolicyOperations
from warren.broker.services import Services
from warren.broker.stream_groups import StreamGroups
from warren.broker.telling_admin import TellingAdmin
from warren.broker.vhost import VirtualHost
from warren.metadata.keys import KeyKind, parse_key, prefix
from warren.metadata.store import (
    CancelWatch,
    Change,
    Lease,
    LeaseLost,
    MetadataStore,
    MetadataUnavailable,
    Record,
)
from warren.model.clock import Clock
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings

# What is not durable lives as long as the node does, and this much longer if it dies silently.
NODE_LEASE_TTL_S: Final = 30.0

# In this order a thing comes after all that it stands on.
_LOADED: Final = (
    KeyKind.GLOBAL_PARAMETER,
    KeyKind.VHOST,
    KeyKind.POLICY,
    KeyKind.OPERATOR_POLICY,
    KeyKind.EXCHANGE,
    KeyKind.QUEUE,
    KeyKind.BINDING,
    KeyKind.CURSOR,
)

_ACCESS: Final = frozenset({KeyKind.USER, KeyKind.PERMISSION, KeyKind.TOPIC_PERMISSION})


class Broker:
    """`make_queue` builds a queue of this node, `new_token` 22 characters nobody can guess.

    Whoever has to close connections appends to `on_vhost_deleted` and `on_user_deleted`, and is
    called with the name while the deletion is being told.
    """

    def __init__(
        self,
        store: MetadataStore,
        access: AccessControl,
        make_queue: Callable[[QueueRecord, QueueSettings], AbstractQueue],
        new_token: Callable[[], str],
        clock: Clock,
    ) -> None:
        self.store = store
        self.access = access
        self.vhosts: dict[str, VirtualHost] = {}
        self.events = EventBus(clock)
        self.event_exchange = EventExchange(self.vhosts, clock, lambda: self.events.node_name)
        self.events.listeners.append(self.event_exchange)
        self.policies = PolicyOperations(store, self.vhosts, self.events)
        self.parameters = ParameterOperations(self)
        self.stream_groups = StreamGroups(store, clock)
        self.admin: AccessAdmin = TellingAdmin(store, access, self.events)
        self.on_vhost_deleted: list[Callable[[str], None]] = []
        self.on_user_deleted: list[Callable[[str], None]] = []
        self._lease: Lease | None = None
        self._cancel_watch: CancelWatch | None = None
        self.activity = Activity()
        # A cluster sets these: where new queues go, what ends with which node, and who sees to
        # what has lost its last binding with one.
        self.place_queue: Callable[[QueueRecord, Mapping[str, object]], str] = lambda *_: ""
        # And what belongs to a queue that is mirrored.
        self.companions_of_queue: Callable[[str, str], Sequence[str]] = lambda *_: ()
        self.until_ready: Callable[[QueueRecord], Awaitable[None]] | None = None
        self.outlives_home: Callable[[QueueRecord], bool] = lambda _: False
        self.is_masterless: Callable[[QueueRecord], bool] = lambda _: False
        self.lease_of_node: Callable[[str], Lease | None] = lambda _: None
        self.lease_of_no_node: Callable[[], Lease | None] = lambda: self.lease
        self.on_bereft: Callable[[VirtualHost], object] = lambda vhost: None
        self.lease_ttl_s = NODE_LEASE_TTL_S
        self._services = Services(
            store=store,
            lease_of=lambda node: self.lease_of_node(node) or self.lease,
            lease_of_no_node=self._lease_of_no_node,
            outlives_home=self._outlives_home,
            is_masterless=self._is_masterless,
            make_queue=make_queue,
            new_token=new_token,
            require_room_for_queue=access.require_room_for_queue,
            clock=clock,
            events=self.events,
            activity=self.activity,
            place=self._place,
            companions=self._companions,
            until_ready=self._until_ready,
        )

    # Life.

    async def start(self) -> None:
        """Build what the store, which is open, tells of; on the very first start, the defaults."""
        self._lease = await self.store.grant_lease(self.lease_ttl_s)
        await self.admin.open()
        self._cancel_watch = self.store.watch(self._on_changes)
        for kind in _LOADED:
            records = await self.store.range(prefix(kind))
            self._on_changes([Change(record.key, record) for record in records])
        await self.parameters.open(self._services.new_token())
        for vhost in self.vhosts.values():
            await vhost.remove_orphans()

    async def keep_alive(self) -> bool:
        """To be called thrice per time to live. False: too late, what was not durable is gone."""
        try:
            await self.store.keep_alive(self.lease)
        except LeaseLost:
            self._lease = await self.store.grant_lease(self.lease_ttl_s)
            return False
        return True

    def forget_lease(self) -> None:
        """It cannot be revoked: it ends by itself."""
        self._lease = None

    async def stop(self) -> None:
        """Stop following the store. Queues are left as they are: they end with the node."""
        if self._cancel_watch is not None:
            self._cancel_watch()
        if self._lease is not None:
            with suppress(LeaseLost, MetadataUnavailable):
                await self.store.revoke(self._lease)

    # Virtual hosts.

    async def add_vhost(self, name: str) -> None:
        await self.admin.add_vhost(name)

    async def delete_vhost(self, name: str) -> None:
        await self.admin.delete_vhost(name)

    # What the store tells.

    @property
    def lease(self) -> Lease:
        assert self._lease is not None, "the broker has been started"
        return self._lease

    def _lease_of_no_node(self) -> Lease | None:
        return self.lease_of_no_node()

    def _outlives_home(self, record: QueueRecord) -> bool:
        return self.outlives_home(record)

    def _is_masterless(self, record: QueueRecord) -> bool:
        return self.is_masterless(record)

    def _companions(self, vhost: str, queue: str) -> Sequence[str]:
        cursors = self.stream_groups.keys_of(vhost, queue)
        return (*self.companions_of_queue(vhost, queue), *cursors)

    async def _until_ready(self, record: QueueRecord) -> None:
        if self.until_ready is not None:
            await self.until_ready(record)

    def _place(self, record: QueueRecord, policy: Mapping[str, object]) -> str:
        return self.place_queue(record, policy)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        by_vhost: dict[str, list[Change]] = {}
        for change in changes:
            key = parse_key(change.key)
            if key is None:
                continue
            name = key.parts[0]
            if key.kind in _ACCESS:
                self._on_access_change()
            if key.kind is KeyKind.VHOST:
                self._on_vhost_change(name, change.record)
            elif key.kind is KeyKind.GLOBAL_PARAMETER:
                self.parameters.take_in(name, change.record)
            elif key.kind is KeyKind.CURSOR:
                self.stream_groups.take_in(key, change.record)
            elif key.kind is KeyKind.USER and change.record is None:
                _tell(self.on_user_deleted, name)
            elif key.kind in _LOADED:
                by_vhost.setdefault(name, []).append(change)
        # A deleted virtual host has taken everything along: nobody is left to be told of that.
        for name, its_changes in by_vhost.items():
            if name in self.vhosts:
                self.vhosts[name].apply(its_changes)
                if self.vhosts[name].has_bereft:
                    self.on_bereft(self.vhosts[name])

    def _on_access_change(self) -> None:
        """Channels keep what they were allowed together with their routes."""
        for vhost in self.vhosts.values():
            vhost.version.bump()

    def _on_vhost_change(self, name: str, record: Record | None) -> None:
        vhost = self.vhosts.get(name)
        if record is None:
            self._on_vhost_deleted(name)
            return
        if vhost is None:
            vhost = self.vhosts[name] = VirtualHost(name, self._services, record.version)
        else:
            vhost.record_stored(record.version)
        vhost.firehose.turn(decode_vhost(record.value).tracing)

    def _on_vhost_deleted(self, name: str) -> None:
        vhost = self.vhosts.pop(name, None)
        if vhost is not None:
            # Connections first: they need not hear that each of their queues is gone.
            _tell(self.on_vhost_deleted, name)
            vhost.close()


def _tell(listeners: list[Callable[[str], None]], name: str) -> None:
    for listener in tuple(listeners):
        listener(name)
