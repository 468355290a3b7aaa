"""The HTTP side of a node: Starlette for the routes, uvicorn for the protocol, inside our loop.

uvicorn is started and stopped by its parts: its own main loop would take over the signals and
wake an idle node ten times a second. Importing both costs some 60 ms and 6 MiB, which is why this
module is imported when a node starts and by nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from warren.config.values import Endpoint
from warren.model.logs import EventLog
from warren.server.sockets import address_of, bind, format_peer
from warren.server.tls.acceptor import TlsAcceptor, TlsSide
from warren.server.tls.failures import TLS_CLIENT, is_client_hello

METRICS_PATH: Final = "/metrics"
READY_PATH: Final = "/api/health/checks/ready"
CONCURRENT_REQUESTS_MAX: Final = 1_000
GRACEFUL_STOP_S: Final = 1
BACKLOG: Final = 128

_log = EventLog("management")


def ready_route(why_not_ready: Callable[[], str]) -> Route:
    """Route that answers 503 with a reason, until that is empty."""

    async def ready(_request: Request) -> Response:
        reason = why_not_ready()
        if not reason:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "failed", "reason": reason}, status_code=503)

    return Route(READY_PATH, ready, methods=["GET"])


def bare_application(why_not_ready: Callable[[], str]) -> Starlette:
    """For a node that is not given another: it says whether it is ready, and nothing else."""
    return Starlette(routes=[ready_route(why_not_ready)])


def metrics_only(application: ASGIApp) -> ASGIApp:
    """What of an application the port for Prometheus shows: no more than /metrics."""

    async def part(scope: Scope, receive: Receive, send: Send) -> None:
        is_shown = scope["path"] == METRICS_PATH or scope["path"].startswith(METRICS_PATH + "/")
        shown = application if is_shown else Response("Not found", 404)
        await shown(scope, receive, send)

    return part


class _HttpProtocol(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        if is_client_hello(bytes(self.conn.trailing_data[0][:2])):
            peer = format_peer(self.transport.get_extra_info("peername"))
            host = format_peer(self.transport.get_extra_info("sockname"))
            _log.warning("HTTP connection refused", peer=peer, port=host, reason=TLS_CLIENT)
        super().send_400_response(msg)


class HttpServer:
    """`purpose` and `settings` are for whoever reads why it cannot listen."""

    def __init__(
        self,
        endpoint: Endpoint,
        purpose: str = "HTTP",
        settings: str = "--http-port or management.tcp.port",
        tls: TlsSide | None = None,
    ) -> None:
        self._tls = tls
        self._acceptor: TlsAcceptor | None = None
        self._endpoint = endpoint
        self._purpose = purpose
        self._settings = settings
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None

    def bind(self) -> None:
        """Raises CannotListenError."""
        self._socket = bind(self._endpoint, self._purpose, self._settings)

    @property
    def endpoint(self) -> Endpoint:
        assert self._socket is not None, "bind first"
        return address_of(self._socket)

    async def start(self, application: ASGIApp) -> None:
        assert self._socket is not None, "bind first"
        config = uvicorn.Config(
            application,
            loop="none",
            http=_HttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            limit_concurrency=CONCURRENT_REQUESTS_MAX,
            timeout_graceful_shutdown=GRACEFUL_STOP_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[] if self._tls else [self._socket])
        if self._tls is not None:
            self._acceptor = TlsAcceptor(self._tls, self._encrypted, CONCURRENT_REQUESTS_MAX)
            self._acceptor.listen(self._socket, BACKLOG)

    def _encrypted(self) -> asyncio.BaseProtocol:
        """As uvicorn makes them where it accepts connections itself."""
        server = self._server
        assert server is not None, "it is started before anybody is let in"
        return _HttpProtocol(server.config, server.server_state, server.lifespan.state)

    async def stop(self) -> None:
        """Lets requests finish, for a second; also right when `start` was never reached."""
        if self._socket is None:
            return
        if self._acceptor is not None:
            self._acceptor.close()
        bound, self._socket = self._socket, None
        if self._server is None:
            bound.close()
        else:
            await self._server.shutdown(sockets=[bound])
            self._server = None
