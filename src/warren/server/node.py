"""A node: its parts in the order they need each other, taken down in the opposite order.

    addresses taken -> store -> broker -> HTTP (not ready) -> AMQP open -> ready

Addresses come first because they are what most often cannot be had: a second broker must fail
before it touches anything. They only start to listen when there is a broker to talk to. A start
that fails half way takes down what it had put up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from warren.auth.access import AccessControl
from warren.auth.admin import Defaults
from warren.broker.broker import Broker
from warren.broker.event_admin import EventAdmin
from warren.broker.placement import Placement, SingleNode
from warren.broker.queue_host import QueueFactory
from warren.cluster.node_states import Listener
from warren.cluster.placement import LocatorDefaults
from warren.config.settings import Config
from warren.config.values import Endpoint
from warren.metadata.codec import decode_queue
from warren.metadata.keys import KeyKind, parse_key, prefix
from warren.metadata.sqlite import SqliteStore
from warren.metadata.store import MetadataStore, MetadataUnavailable
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.server.alarms import NodeAlarms
from warren.server.clock import LoopClock
from warren.server.connection import AmqpConnection
from warren.server.connection_events import alarm_changed
from warren.server.context import ConnectionContext, new_token
from warren.server.data_directory import (
    ENDED_SESSIONS_FILE,
    METADATA_FILE,
    check_alone,
    check_metadata,
    claim_data_directory,
)
from warren.server.ended_sessions import EndedSessions
from warren.server.exchange_windows import ExchangeWindows
from warren.server.governor import MemoryGovernor
from warren.server.head_times import INTERVAL_MS as HEADS_INTERVAL_MS
from warren.server.head_times import HeadTimes
from warren.server.listener import (
    AmqpListener,
    ClientConnection,
    ConnectionRegistry,
    connection_limit,
    raise_descriptor_limit,
)
from warren.server.listening import listeners_of
from warren.server.loop_watchdog import LoopWatchdog
from warren.server.maintenance import Maintenance
from warren.server.message_storage import MessageStorage
from warren.server.metadata_choice import metadata_store
from warren.server.telemetry.loop_load import LOOK_MS, LoopLoad, Work, waits_for
from warren.server.telemetry.node_publisher import Telemetry
from warren.server.timer_wheel import VISITS_PER_TURN_MAX
from warren.server.tls.sides import RENEWAL_CHECK_MS, TlsSides, tls_sides
from warren.statistics.statistics import SAMPLE_INTERVAL_MS, Statistics

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from warren.queues.delivery import Deliveries
    from warren.server.cluster import Cluster

SHUTDOWN_REASON: Final = "broker forced connection closure with reason 'shutdown'"
STOP_CONNECTIONS_S: Final = 5.0

_log = EventLog("node")


class Node:
    """Start it, use its parts, stop it; once. Needs a running loop."""

    def __init__(
        self,
        config: Config,
        make_connection: Callable[[ConnectionContext], asyncio.BaseProtocol] = AmqpConnection,
        make_application: Callable[[Node], Starlette] | None = None,
    ) -> None:
        self.config = config
        self._make_application = make_application
        self.connections = ConnectionRegistry(
            connection_limit(raise_descriptor_limit(), config.connection_max)
        )
        clock = LoopClock()
        self.store = metadata_store(config, self._on_metadata_fault)
        access = AccessControl(config.loopback_users)
        queue_factory = QueueFactory(clock, self._spawn)
        placement = _placement_of(config, self.store, queue_factory)
        self.broker = Broker(self.store, access, placement, new_token, clock)
        self.broker.default_queue_type = config.default_queue_type
        self.broker.admin = EventAdmin(self.store, access, self.broker.events, _defaults(config))
        self.broker.events.node_name = config.name
        queue_factory.vhosts = self.broker.vhosts
        self.messages = MessageStorage(config.data_dir, sizes=config.storage_sizes)
        queue_factory.storages = self.messages.vhosts
        queue_factory.streams = self.messages.streams
        queue_factory.held_from = self.broker.stream_groups.held_from
        queue_factory.cursors_of = self.broker.stream_groups.cursors_of
        self.context = ConnectionContext(
            config, self.broker, queue_factory, self.connections, clock
        )
        self.context.open_messages = self.messages.open
        self._listener = AmqpListener(
            lambda: make_connection(self.context), self.connections, clock, config.tcp_backlog
        )
        self.alarms = NodeAlarms(config, self.context.brake.board, clock)
        self._watch_storage()
        self.ended_sessions = EndedSessions(config.data_dir / ENDED_SESSIONS_FILE)
        self.governor = MemoryGovernor(
            self.alarms.memory, lambda: self.alarms.disk.is_alarmed, self.messages, clock
        )
        self.governor.deliveries = self._deliveries
        self.started_at_ms = self.context.started_at_ms
        self.stop_connections_s = STOP_CONNECTIONS_S  # what clients have for their goodbye
        # Whoever runs the node sets these, if it can be asked to end from the inside.
        self.on_stop_wanted: Callable[[], None] | None = None
        self.on_reset_wanted: Callable[[], None] | None = None
        # What has to be done when everything works and before clients are let in.
        self.before_clients: list[Callable[[], Awaitable[None]]] = []
        self.statistics = Statistics(
            self.broker, self.messages.counts, self.open_connections, clock
        )
        self.head_times = HeadTimes(config.data_dir, self.broker.vhosts, clock)
        self.loop_watchdog = LoopWatchdog(self.context.at_next_read)
        self._parts = AsyncExitStack()
        self.http_endpoints: dict[str, Endpoint] = {}
        """By scheme; http first, if there is one."""
        self.failure: str | None = None
        self.cluster = _cluster_of(self, self.store)
        self.maintenance = Maintenance(self._listener, self.connections, self.cluster)
        self.metrics_endpoint: Endpoint | None = None

    def _watch_storage(self) -> None:
        self.context.brake.board.listeners.append(
            lambda change: alarm_changed(self.broker.events, change)
        )
        for credit in self.messages.credits:
            self.context.brake.watch(credit)
        self.alarms.is_disk_refusing = lambda: self.messages.is_full
        self.messages.on_failure = lambda error: self._disk_refused()
        self.messages.report_faults(self._on_storage_fault)

    @property
    def is_ready(self) -> bool:
        return self._listener.is_open

    def why_not_ready(self) -> str:
        """Reason why AMQP clients are not accepted; empty if they are."""
        if self.is_ready:
            return ""
        is_suspended = any(self.suspended_endpoints)
        return "AMQP is suspended" if is_suspended else "AMQP is not open"

    @property
    def amqp_endpoints(self) -> list[Endpoint]:
        return self._listener.endpoints

    @property
    def http_endpoint(self) -> Endpoint:
        assert self.http_endpoints, "the node is not started"
        return next(iter(self.http_endpoints.values()))

    @property
    def amqps_endpoints(self) -> list[Endpoint]:
        return self._listener.tls_endpoints

    @property
    def suspended_endpoints(self) -> tuple[tuple[Endpoint, ...], tuple[Endpoint, ...]]:
        """Endpoints that are suspended: those of AMQP, and those of AMQP over TLS."""
        return self._listener.suspended, self._listener.suspended_tls

    async def start(self) -> None:
        """Raises CannotListenError, TlsConfigError, DataDirectoryError or MetadataError, with
        nothing left open."""
        started_at = time.monotonic()
        async with AsyncExitStack() as parts:
            await self._start_parts(parts)
            self._parts = parts.pop_all()
        _log.info(
            "node is ready",
            name=self.config.name,
            amqp=",".join(map(str, self.amqp_endpoints)) or "none",
            amqps=",".join(map(str, self.amqps_endpoints)) or "none",
            **self.http_endpoints,
            data_dir=self.config.data_dir,
            connections_max=self.connections.limit,
            memory_bytes_max=self.alarms.memory.limit_bytes,
            disk_free_bytes_min=self.alarms.disk.limit_bytes,
            took_ms=round((time.monotonic() - started_at) * 1000),
        )

    async def _start_parts(self, parts: AsyncExitStack) -> None:
        # Imported here: it is a third of the time to the first line of our own.
        from warren.server.http_side import HttpSide

        tls = tls_sides(self.config)
        parts.callback(self.context.timers.close)
        parts.callback(self._listener.close)
        self._listener.bind(self.config.tcp_listeners)
        if tls.amqp is not None:
            self._listener.bind_tls(self.config.ssl_listeners, tls.amqp.side)
        http = HttpSide(self.config, tls.http.side if tls.http is not None else None)
        parts.push_async_callback(http.stop)
        http.bind()
        self.http_endpoints, self.metrics_endpoint = http.endpoints, http.metrics_endpoint
        if self.cluster is not None:
            self.cluster.links.speak_tls(tls.links.side if tls.links is not None else None)
            self.cluster.bind()
            parts.callback(self.cluster.close)
        self._claim_directory(parts)
        self.alarms.start()
        parts.callback(self.alarms.stop)
        await self.store.open()
        parts.push_async_callback(self.store.close)
        parts.callback(self.context.backends.close)
        if self.cluster is not None:
            await self.cluster.follow()
        await self._open_messages()
        parts.push_async_callback(self.messages.close)
        if self.cluster is not None:
            parts.push_async_callback(self.cluster.keeper.stop)
        await self._start_broker()
        self.governor.start()
        parts.callback(self.governor.stop)
        parts.push_async_callback(self.broker.stop)
        windows = ExchangeWindows(self.config.data_dir, self.broker.vhosts)
        await windows.recall()
        parts.push_async_callback(windows.save)
        parts.push_async_callback(self.head_times.close)
        await http.start(self._application())
        parts.push_async_callback(http.stop)  # again: requests end before the broker does
        parts.push_async_callback(self._close_connections)
        if self.cluster is not None:
            await self.cluster.join()
            parts.push_async_callback(self.cluster.leave)
        for prepare in self.before_clients:
            await prepare()
        await self._listener.open()
        parts.enter_context(self.loop_watchdog)  # a start may take long turns: nobody waits yet
        self._begin_rounds(tls)

    def _claim_directory(self, parts: AsyncExitStack) -> None:
        claim_data_directory(self.config.data_dir, self.config.name)
        if self.cluster is None:
            check_metadata(self.config.data_dir, METADATA_FILE)
        else:
            check_alone(self.config.data_dir, METADATA_FILE)
            self.cluster.lock.acquire()
            parts.callback(self.cluster.lock.release)

    def _begin_rounds(self, tls: TlsSides) -> None:
        """From now on these are done every now and then."""
        self._take_samples()
        self._look_at_queue_heads()
        storing = self.messages.mark_storing_queues
        self._look_at_load(LoopLoad(self.open_connections, self._count_work, storing))
        Telemetry(self).start()
        self._renew_certificates(tls)
        if self.config.consumer_timeout_ms or not self.context.backends.chain.is_internal_only:
            self._tick_channels()

    def _application(self) -> Starlette:
        """What answers over HTTP. Management knows the node, never the other way round."""
        from warren.server.http import bare_application

        if self._make_application is None:
            return bare_application(self.why_not_ready)
        return self._make_application(self)

    async def _start_broker(self) -> None:
        self.broker.on_vhost_deleted.append(self._on_vhost_deleted)
        self.broker.on_user_deleted.append(self._on_user_deleted)
        await self.broker.start()
        if self.cluster is None:
            self._keep_lease()
        else:
            self.cluster.keeper.start()
        for vhost in tuple(self.broker.vhosts):
            await self.messages.open(vhost)
        if self.cluster is not None:
            self.cluster.queues_loaded()
        await self.messages.forget_unclaimed()

    async def _open_messages(self) -> None:
        """Before there are queues: they are made with what they had."""
        await self.head_times.recall()
        self.context.queue_factory.head_times = self.head_times.known
        for record in await self.store.range(prefix(KeyKind.VHOST)):
            key = parse_key(record.key)
            assert key is not None, "the store was asked for virtual hosts"
            (vhost,) = key.parts
            if self.messages.is_missing(vhost) and (count := await self._durable_queues(vhost)):
                self.messages.refuse(vhost, count)
            await self.messages.open(vhost)
        if self.cluster is not None:
            await self.cluster.open_storage_first(self.messages)

    async def _durable_queues(self, vhost: str) -> int:
        """Those that this node should have the messages of, and no other has."""
        stored = await self.store.range(prefix(KeyKind.QUEUE, vhost))
        queues = [decode_queue(queue.value) for queue in stored]
        return sum(queue.durable and self._has_alone(queue) for queue in queues)

    def _has_alone(self, queue: QueueRecord) -> bool:
        if self.cluster is None or not queue.node:
            return queue.node in ("", self.config.name)
        return self.cluster.is_only_on(queue, self.config.name)

    def _keep_lease(self) -> None:
        interval_ms = int(self.broker.placement.lease_ttl_s * 1000 / 3)
        self.context.timers.call_later(interval_ms, self._keep_lease)
        self.context.spawn(self._keep_alive())

    async def _keep_alive(self) -> None:
        try:
            await self.broker.keep_alive()
        except MetadataUnavailable as error:
            _log.warning("the node's lease could not be kept alive", reason=error)

    def _on_vhost_deleted(self, name: str) -> None:
        for connection in self.open_connections():
            if connection.vhost.name == name:
                connection.shut_down(f"vhost '{name}' is deleted")

    def _on_user_deleted(self, name: str) -> None:
        for connection in self.open_connections():
            if connection.user.name == name:
                connection.shut_down(f"user '{name}' is deleted")

    def _deliveries(self) -> Iterable[Deliveries]:
        if self.cluster is not None:
            return self.cluster.shell.deliveries()
        return [channel.deliveries for c in self.open_connections() for channel in c.channels]

    def open_connections(self) -> list[AmqpConnection]:
        return [c for c in self.connections if isinstance(c, AmqpConnection) and c.is_open]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.context.spawn(work)

    def _take_samples(self) -> None:
        """For the statistics: now, and every few seconds."""
        self.context.timers.call_later(SAMPLE_INTERVAL_MS, self._take_samples)
        self._go_on_sampling(self.statistics.sampling())

    def _look_at_queue_heads(self) -> None:
        """Note when the oldest message of each queue came: now, and every few seconds."""
        self.context.timers.call_later(HEADS_INTERVAL_MS, self._look_at_queue_heads)
        self.context.spawn(self._keep_queue_heads())

    async def _keep_queue_heads(self) -> None:
        for _ in self.head_times.looking():
            await asyncio.sleep(0)
        await self.head_times.save()

    def _look_at_load(self, load: LoopLoad) -> None:
        self.context.timers.call_later(LOOK_MS, lambda: self._look_at_load(load))
        load.look(self.context.clock.now_ms())

    def _count_work(self) -> Work:
        messages = self.messages
        waiting = waits_for((messages.journal_credit, messages.store_credit))
        return Work(self.broker.activity.published(), messages.counts().messages_written, waiting)

    def _renew_certificates(self, tls: TlsSides) -> None:
        """If they have changed; looked at every now and then, where there are any."""
        if any(tls):
            self.context.timers.call_later(RENEWAL_CHECK_MS, lambda: self._renew_certificates(tls))
            self.context.spawn(asyncio.to_thread(tls.renew))

    def _go_on_sampling(self, sampling: Iterator[None]) -> None:
        for _ in sampling:
            asyncio.get_running_loop().call_soon(self._go_on_sampling, sampling)
            return

    def _tick_channels(self) -> None:
        """Look for deliveries that were not acknowledged in time."""
        self._visit_channels(list(self.connections))
        self.context.timers.call_later(self.config.channel_tick_interval_ms, self._tick_channels)

    def _visit_channels(self, connections: list[ClientConnection]) -> None:
        for connection in connections[:VISITS_PER_TURN_MAX]:
            connection.close_overdue_channels()
        if rest := connections[VISITS_PER_TURN_MAX:]:
            asyncio.get_running_loop().call_soon(self._visit_channels, rest)

    def _disk_refused(self) -> None:
        """Something could not be written: hold publishers, and have queues led where disks work."""
        self.alarms.disk_refused()
        if self.cluster is not None:
            self.cluster.disk_refused()

    def _on_metadata_fault(self, change: str, error: BaseException) -> None:
        """End the node: it has another topology than its store, or its cluster, from now on."""
        _log.exception("metadata change could not be applied; stopping", error, change=change)
        self.give_up(
            f"a change of the metadata could not be applied ({change}): "
            f"{type(error).__name__}: {error}; the log has the traceback, which we need to mend "
            "this, and a restart reads the metadata anew"
        )

    def _on_storage_fault(self, error: BaseException) -> None:
        """End the node: a queue whose messages cannot be read would stand still for ever."""
        _log.exception("storage failed; stopping", error)
        self.give_up(
            f"work of the storage failed: {type(error).__name__}: {error}; the log has the "
            "traceback, which we need to mend this, and a restart recovers all messages"
        )

    def give_up(self, reason: str) -> None:
        """It must not go on as it is; whoever runs it stops it and says why."""
        self.failure = self.failure or reason
        if self.on_stop_wanted is not None:
            self.on_stop_wanted()

    async def stop(self) -> None:
        """Tell the clients, wait for them a while, and let everything go."""
        _log.info("node is stopping", name=self.config.name, connections=len(self.connections))
        await self._parts.aclose()
        _log.info("node has stopped", name=self.config.name)

    def listeners(self) -> list[Listener]:
        return listeners_of(self)

    def stop_from_inside(self) -> None:
        if self.on_stop_wanted is not None:
            self.on_stop_wanted()

    async def _close_connections(self) -> None:
        self._listener.close()
        await self.connections.visit(lambda connection: connection.shut_down(SHUTDOWN_REASON))
        try:
            async with asyncio.timeout(self.stop_connections_s):
                await self.connections.wait_empty()
                await self.context.work_finished()
        except TimeoutError:
            _log.warning("connections did not close in time", connections=len(self.connections))
            await self.connections.visit(lambda connection: connection.abort())


def _placement_of(config: Config, store: MetadataStore, factory: QueueFactory) -> Placement:
    if isinstance(store, SqliteStore):
        return SingleNode(factory.make)
    from warren.server.cluster_placement import ClusterPlacement

    return ClusterPlacement(
        factory, LocatorDefaults(config.queue_master_locator, config.queue_leader_locator)
    )


def _cluster_of(node: Node, store: MetadataStore) -> Cluster | None:
    if isinstance(store, SqliteStore):
        return None
    from warren.server.cluster import Cluster
    from warren.server.cluster_placement import ClusterPlacement
    from warren.server.cluster_store import ClusterStore

    assert isinstance(store, ClusterStore)
    assert isinstance(node.broker.placement, ClusterPlacement)
    cluster = Cluster(node.context, store, node.broker.placement, node)
    node.statistics.tell_sample = cluster.tell_sample
    cluster.on_sample = node.statistics.heard
    cluster.use_heads(node.head_times)
    return cluster


def _defaults(config: Config) -> Defaults:
    return Defaults(
        user=config.default_user,
        password=config.default_pass,
        tags=config.default_user_tags,
        vhost=config.default_vhost,
        configure=config.default_configure,
        write=config.default_write,
        read=config.default_read,
    )
