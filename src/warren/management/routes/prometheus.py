"""/metrics, /metrics/per-object and /metrics/detailed, for Prometheus.

Nobody has to log in, as with RabbitMQ's plugin: whoever can reach the port can read the metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from warren.management.metrics.detailed import detailed
from warren.management.metrics.exposition import CONTENT_TYPE, Pieces
from warren.management.metrics.scrape import Scrape

if TYPE_CHECKING:
    from warren.server.node import Node

PATH: Final = "/metrics"


def metrics_routes(node: Node) -> list[Route]:
    async def aggregated(_request: Request) -> Response:
        return _respond(Scrape(node).aggregated())

    async def per_object(_request: Request) -> Response:
        return _respond(Scrape(node).per_object())

    async def chosen(request: Request) -> Response:
        vhosts = request.query_params.getlist("vhost")
        scrape = Scrape(node, frozenset(vhosts) if vhosts else None)
        return _respond(detailed(scrape, request.query_params.getlist("family")))

    return [
        Route(PATH, aggregated, methods=["GET"]),
        Route(f"{PATH}/per-object", per_object, methods=["GET"]),
        Route(f"{PATH}/detailed", chosen, methods=["GET"]),
    ]


def _respond(pieces: Pieces) -> Response:
    return StreamingResponse(_paced(pieces), media_type=CONTENT_TYPE)


async def _paced(pieces: Pieces) -> AsyncIterator[str]:
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)
