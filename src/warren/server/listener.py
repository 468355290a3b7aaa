"""Accepts AMQP connections and knows them all.

A process has so many file descriptors. Running out of them in the middle of accepting leaves the
loop spinning over a connection it can neither take nor refuse, and the store without files. So
the soft limit is raised to the hard one at the start, a share is kept for files, and beyond that
clients are refused: accepted, closed at once, and counted in the log.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from warren.config.values import Endpoint
from warren.model.clock import Clock
from warren.model.logs import EventLog
from warren.server.sockets import CannotListenError, address_of, bind, format_peer
from warren.server.tls.acceptor import TlsAcceptor, TlsSide

# For the metadata file, message store files, HTTP clients and whatever libraries open.
DESCRIPTORS_KEPT: Final = 128
DESCRIPTORS_WISHED: Final = 1_048_576
REFUSAL_LOG_INTERVAL_MS: Final = 1_000
# Connections that one turn of the loop closes: each is sent a frame, which is a call to the system.
VISITS_PER_TURN_MAX: Final = 200

_log = EventLog("connection")


class ClientConnection(Protocol):
    """What the registry needs to know of a connection."""

    def shut_down(self, reason: str) -> None:
        """Close with 320 CONNECTION_FORCED and this reason, wherever the connection stands."""
        ...

    def abort(self) -> None:
        """Drop the socket now."""
        ...

    def close_overdue_channels(self) -> None:
        """Close channels whose deliveries were not acknowledged in time."""
        ...


class ConnectionRegistry:
    """All client connections, at most `limit` of them."""

    def __init__(self, limit: int) -> None:
        assert limit > 0
        self.limit = limit
        self._connections: set[ClientConnection] = set()
        self._emptied = asyncio.Event()
        self._emptied.set()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(tuple(self._connections))

    def add(self, connection: ClientConnection) -> None:
        self._connections.add(connection)
        self._emptied.clear()

    def remove(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._emptied.set()

    async def visit(self, do: Callable[[ClientConnection], None]) -> None:
        """Do something to each that is open now, a slice of them in one turn of the loop."""
        for number, connection in enumerate(self, start=1):
            if connection in self._connections:
                do(connection)
            if number % VISITS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)

    async def wait_empty(self) -> None:
        await self._emptied.wait()


class AmqpListener:
    """Sockets for AMQP clients; each connection is made by `make_connection`, which registers
    itself with the registry when its socket is there and goes from it when the socket is gone.
    Where TLS is spoken, it is made when the handshake has been passed."""

    def __init__(
        self,
        make_connection: Callable[[], asyncio.BaseProtocol],
        registry: ConnectionRegistry,
        clock: Clock,
        backlog: int,
    ) -> None:
        self._make_connection = make_connection
        self._registry = registry
        self._backlog = backlog
        self._refusals = _RefusalLog(clock, registry.limit)
        # Accepted in this turn of the loop; they register themselves in the next one.
        self._arriving = 0
        self._tls: TlsAcceptor | None = None
        self._sockets: list[socket.socket] = []
        self._tls_sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self.suspended: tuple[Endpoint, ...] = ()
        """Addresses for AMQP that `resume` will take again."""
        self.suspended_tls: tuple[Endpoint, ...] = ()
        self.is_open = False

    def bind(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Take the addresses; clients are refused until `open`. Raises CannotListenError."""
        for endpoint in endpoints:
            self._sockets.append(bind(endpoint, "AMQP", "--port or listeners.tcp"))

    def bind_tls(self, endpoints: tuple[Endpoint, ...], side: TlsSide) -> None:
        """The same for clients that speak TLS."""
        self._tls = TlsAcceptor(side, self._make_connection, refuses=self._refusal)
        for endpoint in endpoints:
            self._tls_sockets.append(bind(endpoint, "AMQP over TLS", "listeners.ssl"))

    @property
    def endpoints(self) -> list[Endpoint]:
        return [address_of(bound) for bound in self._sockets]

    @property
    def tls_endpoints(self) -> list[Endpoint]:
        return [address_of(bound) for bound in self._tls_sockets]

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for bound in self._sockets:
            server = await loop.create_server(self._accept, sock=bound, backlog=self._backlog)
            self._servers.append(server)
        for bound in self._tls_sockets:
            assert self._tls is not None, "it was bound for"
            self._tls.listen(bound, self._backlog)
        self.is_open = True

    def close(self) -> None:
        """Accept no more; connections that are there stay."""
        self.is_open = False
        for server in self._servers:
            server.close()
        if self._tls is not None:
            self._tls.close()
        for bound in (*self._sockets, *self._tls_sockets):
            bound.close()
        self._servers.clear()
        self._sockets.clear()
        self._tls_sockets.clear()

    @property
    def _is_full(self) -> bool:
        shaking_hands = 0 if self._tls is None else len(self._tls)
        return len(self._registry) + self._arriving + shaking_hands >= self._registry.limit

    def _refusal(self) -> str:
        return "connection limit of the node is reached" if self._is_full else ""

    def suspend(self) -> None:
        """Let the addresses go, to take them again with `resume`."""
        if not self.is_open:
            return
        self.suspended, self.suspended_tls = tuple(self.endpoints), tuple(self.tls_endpoints)
        self.close()

    async def resume(self) -> None:
        """Raises CannotListenError."""
        if self.is_open:
            return
        try:
            self.bind(self.suspended)
            if self._tls is not None:
                self.bind_tls(self.suspended_tls, self._tls.side)
        except CannotListenError:
            self.close()  # of some it may have the address: all or none
            raise
        await self.open()
        self.suspended = self.suspended_tls = ()

    def _accept(self) -> asyncio.BaseProtocol:
        if self._is_full:
            return _Refused(self._refusals)
        self._arriving += 1
        asyncio.get_running_loop().call_soon(self._arrived)
        return self._make_connection()

    def _arrived(self) -> None:
        self._arriving -= 1


class _Refused(asyncio.Protocol):
    def __init__(self, refusals: _RefusalLog) -> None:
        self._refusals = refusals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._refusals.count(transport.get_extra_info("peername"))
        transport.close()


class _RefusalLog:
    """One line a second, however many knock."""

    def __init__(self, clock: Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._refused = 0
        self._quiet_until_ms = 0

    def count(self, peername: object) -> None:
        self._refused += 1
        now_ms = self._clock.now_ms()
        if now_ms < self._quiet_until_ms:
            return
        self._quiet_until_ms = now_ms + REFUSAL_LOG_INTERVAL_MS
        _log.warning(
            "connection refused",
            peer=format_peer(peername),
            reason="connection limit of the node is reached",
            limit=self._limit,
            refused=self._refused,
        )


def raise_descriptor_limit() -> int:
    """Take as many file descriptors as we may; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wished = DESCRIPTORS_WISHED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wished:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wished, hard))
        except (OSError, ValueError):
            # Some systems name a hard limit that the kernel does not grant.
            return soft
        return wished
    return wished if soft == resource.RLIM_INFINITY else soft


def connection_limit(descriptors: int, configured: int) -> int:
    """How many clients fit, given a configured limit (0: none)."""
    room = max(1, descriptors - DESCRIPTORS_KEPT)
    return min(room, configured) if configured else room
