"""What all connections of a node share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Final

from warren.auth.login_guard import LoginGuard
from warren.broker.broker import Broker
from warren.broker.queue_host import QueueFactory
from warren.channels.reply_registry import ReplyDesk, ReplyRegistry
from warren.config.settings import Config
from warren.flow.alarms import AlarmBoard
from warren.flow.brake import Brake
from warren.flow.tenure import Tenure, unlimited
from warren.metadata.etcd_address import is_etcd_address
from warren.protocol.capabilities import server_properties
from warren.protocol.handshake import HandshakeSettings
from warren.protocol.sasl import KNOWN_MECHANISMS, External, Mechanism
from warren.server.admission import Admission
from warren.server.backends.choosing import chain_of
from warren.server.clock import LoopClock
from warren.server.flush_scheduler import FlushScheduler
from warren.server.frozen import FrozenNode
from warren.server.listener import ConnectionRegistry
from warren.server.timer_wheel import TimerWheel
from warren.server.tls.login import external_login

READ_BUFFER_BYTES: Final = 131_072
_TOKEN_BYTES: Final = 16
_NEVER_MS: Final = 2**63
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

# Seconds that never go back, and go on while the process or the whole machine sleeps. Asked at each
# write, so there is no function of ours around it.
boottime_s: Final[Callable[[], float]] = partial(time.clock_gettime, _CLOCK)


class ConnectionContext:
    def __init__(
        self,
        config: Config,
        broker: Broker,
        queue_factory: QueueFactory,
        connections: ConnectionRegistry,
        clock: LoopClock,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._background: set[asyncio.Task[None]] = set()
        self._to_finish: set[asyncio.Task[None]] = set()
        self.config = config
        self.broker = broker
        self.queue_factory = queue_factory
        self.connections = connections
        self.clock = clock
        # Sees to it that a virtual host, which may be new, has a place for its messages.
        self.open_messages: Callable[[str], Awaitable[None]] | None = None
        self.timers = TimerWheel(clock)
        self.brake = Brake(AlarmBoard(clock), clock)
        self.login_guard = LoginGuard(clock, config.login_failures_max)
        self.backends = chain_of(config, broker.access, clock)
        self.admission = Admission(self.backends.chain, broker.activity, self.login_guard)
        self.handshake_settings = _handshake_settings(config)
        self.reply_registry = ReplyRegistry()
        self.reply_desk = ReplyDesk(self.reply_registry)
        self.tenure = Tenure(boottime_s) if is_etcd_address(config.metadata) else unlimited()
        self.flush_scheduler = FlushScheduler(self.loop, self.tenure)
        self.frozen = FrozenNode(self.tenure, self.brake, config.metadata_timeout_ms)
        # A process that has slept finds out before it takes in more, if it can.
        self.look_at_tenure_ms = self._tenure_until_ms = _NEVER_MS
        self._at_next_read: Callable[[], None] | None = None
        self.turn_clock = queue_factory.turn_clock
        # Reads of all connections land here, one after the other: nothing is kept in it.
        self.read_buffer = memoryview(bytearray(READ_BUFFER_BYTES))
        self.started_at_ms = clock.now_ms()
        self._connections_opened = 0

    def extend_tenure(self, until_s: float) -> None:
        """The session is certain until then."""
        left_ms = int((until_s - boottime_s()) * 1000)
        self._tenure_until_ms = self.clock.now_ms() + left_ms
        if self._at_next_read is None:
            self.look_at_tenure_ms = self._tenure_until_ms
        self.tenure.extend(until_s)

    def at_next_read(self, call: Callable[[], None]) -> None:
        """Call this once, when a connection is read next; reads look at one number anyway."""
        self._at_next_read = call
        self.look_at_tenure_ms = 0

    def look_at_tenure(self) -> None:
        call, self._at_next_read = self._at_next_read, None
        if call is not None:
            call()
        if self.clock.now_ms() >= self._tenure_until_ms:
            self._tenure_until_ms = _NEVER_MS
            self.tenure.holds()
        self.look_at_tenure_ms = self._tenure_until_ms

    def pid(self, connection_number: int, channel_number: int) -> str:
        """As Erlang names its processes, since tools split them: node, when it was started, a
        number and another one. Here these two are a connection and one of its channels, or 0."""
        started_at_s = self.started_at_ms // 1000
        return f"<{self.config.name}.{started_at_s}.{connection_number}.{channel_number}>"

    def next_connection_number(self) -> int:
        self._connections_opened += 1
        return self._connections_opened

    def handshake_settings_for(self, transport: asyncio.BaseTransport) -> HandshakeSettings:
        """EXTERNAL is for those alone who could have shown a certificate."""
        settings, config = self.handshake_settings, self.config
        is_encrypted = transport.get_extra_info("ssl_object") is not None
        if not is_encrypted or External.name not in config.auth_mechanisms:
            return settings
        offered: dict[str, Mechanism] = {known.name: known for known in settings.mechanisms}
        offered[External.name] = external_login(transport, config)
        mechanisms = tuple(offered[name] for name in config.auth_mechanisms)
        return replace(settings, mechanisms=mechanisms)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run on its own; the loop reports what goes wrong in it."""
        task = self.loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def spawn_to_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Run on its own; a stop of the node waits for it (`work_finished`)."""
        task = self.spawn(work)
        self._to_finish.add(task)
        task.add_done_callback(self._to_finish.discard)

    async def work_finished(self) -> None:
        while self._to_finish:
            await asyncio.wait(self._to_finish)


def new_token() -> str:
    """22 characters nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _handshake_settings(config: Config) -> HandshakeSettings:
    mechanisms = {mechanism.name: mechanism for mechanism in KNOWN_MECHANISMS}
    return HandshakeSettings(
        server_properties=server_properties(config.cluster_name or config.name),
        mechanisms=tuple(mechanisms[n] for n in config.auth_mechanisms if n in mechanisms),
        channel_max=config.channel_max,
        frame_max=config.frame_max,
        heartbeat_s=config.heartbeat_s,
    )
