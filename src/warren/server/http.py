"""The HTTP side of a node: Starlette for the routes, uvicorn for the protocol, inside our loop.

uvicorn is started and stopped by its parts: its own main loop would take over the signals and
wake an idle node ten times a second. Importing both costs some 60 ms and 6 MiB, which is why this
module is imported when a node starts and by nothing else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from warren.config.values import Endpoint
from warren.server.http_protocol import CONNECTIONS_MAX, READY_PATH, HttpProtocol, limited
from warren.server.sockets import address_of, bind
from warren.server.tls.acceptor import TlsAcceptor, TlsSide

METRICS_PATH: Final = "/metrics"
# In the scope of requests to the port for Prometheus; no request can put it there.
METRICS_PORT: Final = "warren.metrics_port"
GRACEFUL_STOP_S: Final = 1
BACKLOG: Final = 128


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
    """Return the part of an application that the port for Prometheus shows: /metrics, to all."""

    async def part(scope: Scope, receive: Receive, send: Send) -> None:
        is_shown = scope["path"] == METRICS_PATH or scope["path"].startswith(METRICS_PATH + "/")
        shown = application if is_shown else Response("Not found", 404)
        await shown({**scope, METRICS_PORT: True}, receive, send)

    return part


class HttpServer:
    """`purpose` and `settings` are for whoever reads why it cannot listen.

    Only `proxies` are believed when they say for whom they ask (`X-Forwarded-For`).
    """

    def __init__(
        self,
        endpoint: Endpoint,
        purpose: str = "HTTP",
        settings: str = "--http-port or management.tcp.port",
        tls: TlsSide | None = None,
        proxies: Sequence[str] = (),
    ) -> None:
        self._proxies = list(proxies)
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
        state = ServerState()
        config = uvicorn.Config(
            limited(application, state.connections),
            loop="none",
            http=HttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=BACKLOG,
            proxy_headers=bool(self._proxies),
            forwarded_allow_ips=self._proxies,
            timeout_graceful_shutdown=GRACEFUL_STOP_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        self._server.server_state = state
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[] if self._tls else [self._socket])
        if self._tls is not None:
            self._acceptor = TlsAcceptor(self._tls, self._encrypted, CONNECTIONS_MAX)
            self._acceptor.listen(self._socket, BACKLOG)

    def _encrypted(self) -> asyncio.BaseProtocol:
        """As uvicorn makes them where it accepts connections itself."""
        server = self._server
        assert server is not None, "it is started before anybody is let in"
        return HttpProtocol(server.config, server.server_state, server.lifespan.state)

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
