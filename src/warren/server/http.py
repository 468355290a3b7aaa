"""The HTTP side of a node: Starlette for the routes, uvicorn for the protocol, inside our loop.

uvicorn is started and stopped by its parts: its own main loop would take over the signals and
wake an idle node ten times a second. Importing both costs some 60 ms and 6 MiB, which is why this
module is imported when a node starts and by nothing else.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from warren.server.config_values import Endpoint
from warren.server.sockets import address_of, bind

METRICS_PATH: Final = "/metrics"
READY_PATH: Final = "/api/health/checks/ready"
CONCURRENT_REQUESTS_MAX: Final = 1_000
GRACEFUL_STOP_S: Final = 1
BACKLOG: Final = 128


def ready_route(is_ready: Callable[[], bool]) -> Route:
    async def ready(_request: Request) -> Response:
        if is_ready():
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "failed", "reason": "AMQP is not open"}, status_code=503)

    return Route(READY_PATH, ready, methods=["GET"])


def bare_application(is_ready: Callable[[], bool]) -> Starlette:
    """For a node that is not given another: it says whether it is ready, and nothing else."""
    return Starlette(routes=[ready_route(is_ready)])


def metrics_only(application: ASGIApp) -> ASGIApp:
    """What of an application the port for Prometheus shows: no more than /metrics."""

    async def part(scope: Scope, receive: Receive, send: Send) -> None:
        is_shown = scope["path"] == METRICS_PATH or scope["path"].startswith(METRICS_PATH + "/")
        shown = application if is_shown else Response("Not found", 404)
        await shown(scope, receive, send)

    return part


class HttpServer:
    """`purpose` and `settings` are for whoever reads why it cannot listen."""

    def __init__(
        self,
        endpoint: Endpoint,
        purpose: str = "HTTP",
        settings: str = "--http-port or management.tcp.port",
    ) -> None:
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
            http="h11",
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
        await self._server.startup(sockets=[self._socket])

    async def stop(self) -> None:
        """Lets requests finish, for a second; also right when `start` was never reached."""
        if self._socket is None:
            return
        bound, self._socket = self._socket, None
        if self._server is None:
            bound.close()
        else:
            await self._server.shutdown(sockets=[bound])
            self._server = None
