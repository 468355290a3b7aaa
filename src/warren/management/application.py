"""The HTTP side of a node as one application: the management API, and what else has an address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from warren.management.cluster.serving import answering
from warren.management.definitions_file import load_definitions
from warren.management.dispatch import Dispatch
from warren.management.errors import Refusal, no_such_object
from warren.management.page.site import Site
from warren.management.resource import Resource
from warren.management.routes import (
    access_check,
    bindings,
    cluster,
    definitions,
    exchanges,
    limits,
    membership,
    parameters,
    permissions,
    policies,
    queues,
    quorum,
    rebalancing,
    runtime,
    super_streams,
    users,
    vhosts,
)
from warren.management.routes.prometheus import metrics_routes
from warren.management.views.nodes import machine_figures
from warren.metadata.store import MetadataUnavailable
from warren.model.logs import keep_log_tail
from warren.server.http import ready_route

if TYPE_CHECKING:
    from warren.server.node import Node

FAMILIES: Final[tuple[tuple[Resource, ...], ...]] = (
    access_check.RESOURCES,
    bindings.RESOURCES,
    cluster.RESOURCES,
    definitions.RESOURCES,
    exchanges.RESOURCES,
    limits.RESOURCES,
    membership.RESOURCES,
    parameters.RESOURCES,
    permissions.RESOURCES,
    policies.RESOURCES,
    queues.RESOURCES,
    quorum.RESOURCES,
    rebalancing.RESOURCES,
    runtime.RESOURCES,
    super_streams.RESOURCES,
    users.RESOURCES,
    vhosts.RESOURCES,
)

# Where RabbitMQ sends those who come by these addresses.
_API_INDEX: Final = "/api/index.html"
_MOVED: Final = {
    "/api": _API_INDEX,
    "/api/": _API_INDEX,
    "/doc/stats.html": _API_INDEX,
    "/cli": "/cli/index.html",
    "/cli/": "/cli/index.html",
}


def build_application(node: Node) -> Starlette:
    if node.config.load_definitions:
        node.before_clients.append(lambda: load_definitions(node))
    keep_log_tail()
    node.statistics.machine_figures = lambda: machine_figures(node)
    resources = [resource for family in FAMILIES for resource in family]
    dispatch = Dispatch(node, resources)
    site = Site(node, dispatch, resources)
    if node.cluster is not None:
        node.cluster.links.answer_with(answering(dispatch))
    return Starlette(
        routes=[
            ready_route(node.why_not_ready),
            *metrics_routes(node),
            *(Route(path, _moved(to)) for path, to in _MOVED.items()),
            Route(_API_INDEX, site),
            Mount("/api", app=dispatch),
            Mount("/", app=site),
        ],
        exception_handlers={
            404: _not_found,
            MetadataUnavailable: _unavailable,
            Exception: _internal_error,
        },
    )


def _moved(to: str) -> Callable[[Request], Awaitable[Response]]:
    async def moved(_request: Request) -> Response:
        return RedirectResponse(to, 301)

    return moved


async def _not_found(_request: Request, _error: Exception) -> Response:
    return no_such_object().response()


async def _unavailable(_request: Request, error: Exception) -> Response:
    return Refusal(503, "unavailable", str(error)).response()


async def _internal_error(_request: Request, _error: Exception) -> Response:
    """The error itself goes to the log, by way of the web server."""
    return Refusal(500, "Internal Server Error", "Internal Server Error").response()
