"""The broker without its sockets: who may do what, and the virtual hosts, kept as stored.

At the start everything is read from the metadata store; from then on the store tells of every
change, whoever made it, and the broker passes it on to the virtual host that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin
from warren.auth.codec import decode_vhost
from warren.broker.activity import Activity
from warren.broker.event_admin import EventAdmin
from warren.broker.event_exchange import EventExchange
from warren.broker.events import EventBus
from warren.broker.parameter_operations import ParameterOperations
from warren.broker.placement import Placement
from warren.broker.policy_operations import PolicyOperations
from warren.broker.services import Services
from warren.broker.stream_groups import StreamGroups
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
from warren.model.next_turn import NextTurn

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

LOADED_PER_TURN_MAX: Final = 250
"""Records taken in by one turn of the loop: some milliseconds; fewer than `parse_key` remembers."""

_ACCESS: Final = frozenset({KeyKind.USER, KeyKind.PERMISSION, KeyKind.TOPIC_PERMISSION})


class Broker:
    """`placement` knows where queues live, `new_token` makes 22 characters nobody can guess.

    Whoever has to close connections appends to `on_vhost_deleted` and `on_user_deleted`, and is
    called with the name while the deletion is being told.
    """

    def __init__(
        self,
        store: MetadataStore,
        access: AccessControl,
        placement: Placement,
        new_token: Callable[[], str],
        clock: Clock,
    ) -> None:
        self.store = store
        self.access = access
        self.placement = placement
        self.vhosts: dict[str, VirtualHost] = {}
        self.events = EventBus(clock)
        self.event_exchange = EventExchange(self.vhosts, clock, lambda: self.events.node_name)
        self.events.listeners.append(self.event_exchange)
        self.policies = PolicyOperations(store, self.vhosts, self.events)
        self.parameters = ParameterOperations(self)
        self.stream_groups = StreamGroups(store, clock)
        self.admin: AccessAdmin = EventAdmin(store, access, self.events)
        self.on_vhost_deleted: list[Callable[[str], None]] = []
        self.on_user_deleted: list[Callable[[str], None]] = []
        self._lease: Lease | None = None
        self._cancel_watch: CancelWatch | None = None
        self.activity = Activity()
        self.default_queue_type = ""
        """The configuration's, for virtual hosts that have none of their own."""
        self._services = Services(
            store=store,
            own_lease=lambda: self.lease,
            placement=placement,
            new_token=new_token,
            require_room_for_queue=access.require_room_for_queue,
            clock=clock,
            events=self.events,
            activity=self.activity,
            companions=self._companions,
            default_queue_type=self._default_queue_type,
        )

    # Life.

    async def start(self) -> None:
        """Build what the store, which is open, tells of; on the very first start, the defaults."""
        self._lease = await self.store.grant_lease(self.placement.lease_ttl_s)
        await self.admin.open()
        self._cancel_watch = self.placement.watch(self.store, self.apply)
        for kind in _LOADED:
            await self._load(kind)
        await self.parameters.open(self._services.new_token())
        for vhost in self.vhosts.values():
            await vhost.remove_orphans()

    async def _load(self, kind: KeyKind) -> None:
        """Take in all records of a kind, a slice in each turn of the loop.

        Other work goes on meanwhile, such as keeping a lease alive. The store may change under way,
        and tells so at once: what is applied here is what it has at that moment.
        """
        keys = [record.key for record in await self.store.range(prefix(kind))]
        for start in range(0, len(keys), LOADED_PER_TURN_MAX):
            found = [await self.store.get(key) for key in keys[start : start + LOADED_PER_TURN_MAX]]
            self.apply([Change(record.key, record) for record in found if record is not None])
            await NextTurn()

    async def keep_alive(self) -> bool:
        """To be called thrice per time to live. False: too late, what was not durable is gone."""
        try:
            await self.store.keep_alive(self.lease)
        except LeaseLost:
            self._lease = await self.store.grant_lease(self.placement.lease_ttl_s)
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

    def _companions(self, vhost: str, queue: str) -> Sequence[str]:
        cursors = self.stream_groups.keys_of(vhost, queue)
        return (*self.placement.companions(vhost, queue), *cursors)

    def _default_queue_type(self, name: str) -> str:
        vhost = self.access.directory.vhost(name)
        own = "" if vhost is None else vhost.default_queue_type
        return own or self.default_queue_type

    def apply(self, changes: Sequence[Change]) -> None:
        """Take in what the store tells."""
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
                if self.vhosts[name].has_exchanges_without_bindings:
                    self.placement.exchanges_lost_bindings(self.vhosts[name])

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
