"""The network between simulated nodes: TCP connections that are slow, stall, break or are refused.

What is sent over a connection arrives in order, or not at all. A cut drops nothing for good: what
is under way arrives when the cut is mended, unless one end has given up the connection by then. A
cut may go one way. A process that dies has its connections reset, which the other end sees at once
unless the way to it is cut; a process that stands still takes everything in later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from cluster_simulation.loop import NodeLoop
from support.schedule import Schedule

DELAY_US: Final = 1_000
KNOCK_AGAIN_US: Final = 1_000_000
"""After this time the first packet of a connection is sent again that nobody has answered."""


class Host(Protocol):
    """A process, as the network sees it."""

    name: str
    loop: NodeLoop

    def accept(self) -> asyncio.Protocol:
        """Somebody connects: what is to talk to them."""
        ...

    def watch_served(self) -> Callable[[bytes], None]:
        """Return what looks at everything that is sent over a connection from outside."""
        ...


class Socket(asyncio.Transport):
    """One end of a connection, as a transport of asyncio."""

    def __init__(self, host: Host, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.host = host
        self.protocol = protocol
        self.connection: Connection
        self.is_open = True
        self.on_written: Callable[[bytes], None] | None = None
        """A witness that sees what leaves here."""
        self.under_way: deque[bytes] = deque()
        """What was sent to this end, in the order in which it arrives, whichever way it takes."""
        self.stalled = 0
        """How much of that is held up by a cut."""
        self.busy_until_us = 0

    def write(self, data: Any) -> None:
        if self.on_written is not None:
            self.on_written(data)
        if self.is_open:
            self.connection.send(self, data)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.is_open:
            self.is_open = False
            self.host.loop.call_soon(self.protocol.connection_lost, None)
            self.connection.closed_by(self)

    def is_closing(self) -> bool:
        return not self.is_open

    def reset(self) -> None:
        """The other end is gone, and this one hears of it."""

        def lose() -> None:
            if self.is_open:
                self.is_open = False
                self.connection.forget()
                self.protocol.connection_lost(ConnectionResetError("reset"))

        self.host.loop.run(lose)

    def take(self, data: bytes) -> None:
        def receive() -> None:
            if self.is_open:
                self.protocol.data_received(data)

        self.host.loop.run(receive)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Encrypted, as far as anybody can tell: so all that is written comes here."""
        return True if name == "sslcontext" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is room for everything."""

    def get_write_buffer_size(self) -> int:
        return 0


class Connection:
    def __init__(self, network: Network, one: Socket, other: Socket) -> None:
        self._network = network
        self.sockets = (one, other)
        one.connection = other.connection = self

    def other(self, socket: Socket) -> Socket:
        return self.sockets[1] if socket is self.sockets[0] else self.sockets[0]

    def send(self, source: Socket, data: bytes) -> None:
        """Take it up in order; a cut holds it up behind what was sent before."""
        target, network = self.other(source), self._network
        target.under_way.append(data)
        if target.stalled or (source.host.name, target.host.name) in network.cuts:
            target.stalled += 1
        else:
            self._forward(source)

    def _forward(self, source: Socket) -> None:
        """Have the next that is under way arrive, after some time and all before it."""
        target, network = self.other(source), self._network
        schedule = network.schedule
        delay_us = schedule.random.randint(1, network.delay_us(source.host.name, target.host.name))
        arrives_us = max(schedule.now_us + delay_us, target.busy_until_us)
        target.busy_until_us = arrives_us
        schedule.after(arrives_us - schedule.now_us, lambda: self._arrive(source))

    def _arrive(self, source: Socket) -> None:
        target = self.other(source)
        if target.stalled or (source.host.name, target.host.name) in self._network.cuts:
            target.stalled += 1
            return
        data = target.under_way.popleft()
        if target.is_open:
            target.take(data)
        else:
            self._tell_closed(target)

    def way_is_free(self, source_name: str) -> None:
        """A cut has ended: what is stalled arrives, and whoever is gone is found to be."""
        for source in self.sockets:
            target = self.other(source)
            if source.host.name == source_name:
                stalled, target.stalled = target.stalled, 0
                for _ in range(stalled):
                    self._forward(source)
                if not source.is_open:
                    self._tell_closed(source)

    def closed_by(self, socket: Socket) -> None:
        self._tell_closed(socket)
        self.forget()

    def _tell_closed(self, socket: Socket) -> None:
        """The other end hears that this one is closed, if anything gets there."""
        other = self.other(socket)
        if other.is_open and (socket.host.name, other.host.name) not in self._network.cuts:
            self._network.schedule.soon(DELAY_US, other.reset)

    def forget(self) -> None:
        if not any(socket.is_open for socket in self.sockets):
            self._network.connections.pop(self, None)


class Network:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.cuts: set[tuple[str, str]] = set()
        self.connections: dict[Connection, None] = {}
        self.hosts: dict[str, Host] = {}
        """Processes that are there to be connected to."""
        self._delays_us: dict[tuple[str, str], int] = {}

    def delay_us(self, source: str, target: str) -> int:
        return self._delays_us.get((source, target), DELAY_US)

    def slow_down(self, source: str, target: str, delay_us_max: int) -> None:
        self._delays_us[source, target] = delay_us_max

    def is_cut_between(self, one: str, other: str) -> bool:
        return (one, other) in self.cuts or (other, one) in self.cuts

    def cut(self, source: str, target: str) -> None:
        self.cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        if (source, target) in self.cuts:
            self.cuts.discard((source, target))
            for connection in self._between(source, target):
                connection.way_is_free(source)

    def mend_all(self) -> None:
        self._delays_us.clear()
        for source, target in sorted(self.cuts):
            self.mend(source, target)

    def reset(self, one: str, other: str) -> None:
        """All connections between two nodes break at both ends."""
        for connection in self._between(one, other):
            for socket in connection.sockets:
                socket.reset()

    def _between(self, one: str, other: str) -> list[Connection]:
        pair = {one, other}
        return [c for c in self.connections if {s.host.name for s in c.sockets} == pair]

    def died(self, host: Host) -> None:
        """The kernel of a dead process resets what it had."""
        for connection in tuple(self.connections):
            for socket in connection.sockets:
                if socket.host is host and socket.is_open:
                    socket.is_open = False
                    connection.closed_by(socket)

    async def connect(self, source: Host, name: str, protocol: asyncio.Protocol) -> Socket:
        """Connect to a node. Raises ConnectionRefusedError if no process is there."""
        answered: asyncio.Future[None] = source.loop.create_future()

        def tell() -> None:
            if not answered.done():
                answered.set_result(None)

        def knock() -> None:
            if answered.done():
                return
            if self.is_cut_between(source.name, name):
                self.schedule.after(KNOCK_AGAIN_US, knock)
            else:
                delay_us = self.delay_us(source.name, name) + self.delay_us(name, source.name)
                self.schedule.soon(delay_us, lambda: source.loop.run(tell))

        knock()
        await answered
        target = self.hosts.get(name)
        if target is None:
            raise ConnectionRefusedError
        return self._join(source, protocol, target)

    def _join(self, source: Host, protocol: asyncio.Protocol, target: Host) -> Socket:
        accepted = target.accept()
        here, there = Socket(source, protocol), Socket(target, accepted)
        self.connections[Connection(self, here, there)] = None
        there.on_written = target.watch_served()
        target.loop.run(accepted.connection_made, there)
        protocol.connection_made(here)
        return here
