"""/metrics, /metrics/per-object and /metrics/detailed, for Prometheus.

Nobody has to log in, as with RabbitMQ's plugin: whoever can reach the port can read the metrics.
There they have a port of their own, though, and here they are on that of the API, too: the setting
`warren.http_metrics` asks for a login there, or removes them from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from warren.management.caller import authenticate
from warren.management.errors import Refusal, no_such_object, not_authorised
from warren.management.metrics.detailed import detailed
from warren.management.metrics.exposition import CONTENT_TYPE, Pieces
from warren.management.metrics.scrape import Scrape
from warren.server.http import METRICS_PORT

if TYPE_CHECKING:
    from warren.server.node import Node

PATH: Final = "/metrics"
_OPEN: Final = "open"
_LOGIN: Final = "login"

_Answer: TypeAlias = Callable[[Request], Awaitable[Response]]


def metrics_routes(node: Node) -> list[Route]:
    async def aggregated(_request: Request) -> Response:
        return _respond(Scrape(node).aggregated())

    async def per_object(_request: Request) -> Response:
        return _respond(Scrape(node).per_object())

    async def chosen(request: Request) -> Response:
        vhosts = request.query_params.getlist("vhost")
        scrape = Scrape(node, frozenset(vhosts) if vhosts else None)
        return _respond(detailed(scrape, request.query_params.getlist("family")))

    def guarded(answer: _Answer) -> _Answer:
        async def checked(request: Request) -> Response:
            refusal = await _refusal(node, request)
            return refusal.response() if refusal is not None else await answer(request)

        return checked

    return [
        Route(PATH, guarded(aggregated), methods=["GET"]),
        Route(f"{PATH}/per-object", guarded(per_object), methods=["GET"]),
        Route(f"{PATH}/detailed", guarded(chosen), methods=["GET"]),
    ]


async def _refusal(node: Node, request: Request) -> Refusal | None:
    wanted = node.config.http_metrics
    if wanted == _OPEN or METRICS_PORT in request.scope:
        return None
    if wanted != _LOGIN:
        return no_such_object()
    try:
        caller = await authenticate(request, node)
    except Refusal as refusal:
        return refusal
    return None if caller.is_monitor else not_authorised("Not monitor user")


def _respond(pieces: Pieces) -> Response:
    return StreamingResponse(_paced(pieces), media_type=CONTENT_TYPE)


async def _paced(pieces: Pieces) -> AsyncIterator[str]:
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)
