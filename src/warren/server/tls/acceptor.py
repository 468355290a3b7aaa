"""Accepts connections that begin with a TLS handshake; whoever passes it gets a protocol.

    accepted -> shaking hands -> passed:  a protocol of its own, on the encrypted transport
                             \\-> refused: a line in the log, an alert to the client, the end

The sockets are accepted here, not by the loop's own server, because that one would say nothing of
handshakes that fail: neither who it was nor why, neither to us nor to the client. Everything here
happens once per connection; after it the loop hands data straight to the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from warren.model.logs import EventLog
from warren.server.sockets import format_peer
from warren.server.tls.context import ServerContext
from warren.server.tls.failures import explain

# Time for the goodbyes of TLS after a connection is closed.
SHUTDOWN_S_MAX: Final = 5.0
HANDSHAKES_AT_ONCE_MAX: Final = 1_000
ACCEPTED_PER_TURN_MAX: Final = 100
# Before sockets are accepted again after the system has refused one more.
ACCEPT_RETRY_S: Final = 1.0

_log = EventLog("connection")

MakeProtocol = Callable[[], asyncio.BaseProtocol]


@dataclass(slots=True)
class TlsSide:
    """What all connections to a TLS port have in common; `purpose` is what the port is for.

    The contexts are replaced when certificates are renewed; who has been let in, stays in.
    """

    context: ServerContext
    purpose: str
    handshake_s_max: float
    asking: ssl.SSLContext | None = None
    """For connections that we make ourselves, which only links are."""


class TlsAcceptor:
    """`refuses` is asked before each handshake, and says why it is not even begun."""

    def __init__(
        self,
        side: TlsSide,
        make_protocol: MakeProtocol,
        at_once_max: int = HANDSHAKES_AT_ONCE_MAX,
        refuses: Callable[[], str] = lambda: "",
    ) -> None:
        self.side = side
        self._make_protocol = make_protocol
        self._at_once_max = at_once_max
        self._refuses = refuses
        self._listening: list[socket.socket] = []
        self._shaking: dict[_Handshake, asyncio.Task[None]] = {}
        self._retry: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Handshakes under way."""
        return len(self._shaking)

    def listen(self, bound: socket.socket, backlog: int) -> None:
        bound.listen(backlog)
        self._listening.append(bound)
        asyncio.get_running_loop().add_reader(bound, self._accept, bound)

    def close(self) -> None:
        """Accept no more, and end the handshakes; connections that are there stay."""
        if self._retry is not None:
            self._retry.cancel()
        for bound in self._listening:
            asyncio.get_running_loop().remove_reader(bound)
        self._listening.clear()
        for handshake in tuple(self._shaking):
            handshake.end()

    def _accept(self, bound: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN_MAX):
            try:
                accepted, _ = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._wait(error)
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(_Handshake(self.side, accepted))

    def _begin(self, handshake: _Handshake) -> None:
        reason = self._refuses()
        if len(self._shaking) >= self._at_once_max:
            reason = "too many handshakes at once"
        if reason:
            handshake.refuse(reason)
            handshake.close()
            return
        shaking = handshake.run(self._make_protocol)
        task = asyncio.get_running_loop().create_task(shaking)
        self._shaking[handshake] = task
        task.add_done_callback(lambda _: self._shaking.pop(handshake, None))

    def _wait(self, error: OSError) -> None:
        """Out of file descriptors, most likely: trying at once again would be a busy loop."""
        loop = asyncio.get_running_loop()
        _log.error("sockets cannot be accepted", of=self.side.purpose, reason=error)
        for bound in self._listening:
            loop.remove_reader(bound)
        self._retry = loop.call_later(ACCEPT_RETRY_S, self._accept_again)

    def _accept_again(self) -> None:
        for bound in self._listening:
            asyncio.get_running_loop().add_reader(bound, self._accept, bound)


class _Handshake:
    def __init__(self, side: TlsSide, accepted: socket.socket) -> None:
        self._side = side
        self._socket = accepted
        self._peer = _name_of(accepted.getpeername)
        self._port = _name_of(accepted.getsockname)
        self._failure: ssl.SSLError | None = None

    async def run(self, make_protocol: MakeProtocol) -> None:
        context = self._side.context
        context.expect(self._failed)
        reason = ""
        transport: asyncio.Transport | None = None
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                make_protocol,
                self._socket,
                ssl=context,
                ssl_handshake_timeout=self._side.handshake_s_max,
                ssl_shutdown_timeout=SHUTDOWN_S_MAX,
            )
            if self._failure is not None:
                # To the loop a handshake that failed in our hands has not failed.
                reason = explain(self._failure)
            elif transport.get_extra_info("ssl_object") is None:
                reason = "the client closed the socket"
        except OSError as error:
            reason = self._explain(error)
        finally:
            context.forget(self._failed)
        if reason:
            self.refuse(reason)
            if transport is not None:
                transport.abort()

    def refuse(self, reason: str) -> None:
        _log.warning(
            "TLS handshake failed",
            peer=self._peer,
            port=self._port,
            of=self._side.purpose,
            reason=reason,
        )

    def close(self) -> None:
        """If it was not begun; else the socket is the loop's, and the loop closes it."""
        self._socket.close()

    def end(self) -> None:
        """Both directions: the loop hears of it as of any end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _failed(self, error: ssl.SSLError) -> None:
        self._failure = error
        # In a later turn: what OpenSSL has to say to the client is sent in this one.
        asyncio.get_running_loop().call_soon(self.end)

    def _explain(self, error: OSError) -> str:
        if self._failure is None and isinstance(error, ConnectionAbortedError):
            return f"not done within {self._side.handshake_s_max:g} s (ssl_handshake_timeout)"
        return explain(self._failure or error)


def _name_of(ask: Callable[[], object]) -> str:
    """A client may be gone before we look."""
    try:
        return format_peer(ask())
    except OSError:
        return "unknown"
