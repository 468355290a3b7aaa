"""What RabbitMQ has at these addresses, too: the HTTP API at a glance, and the command line."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.page.address import Page
from warren.management.page.visit import Visit

API_PATH: Final = "/api/index.html"
CLI_PATH: Final = "/cli/index.html"


async def _api(visit: Visit) -> Response:
    resources = sorted(visit.site.resources, key=lambda resource: resource.path)
    rows = [
        (resource.path, [name for name in resource.allowed_methods if name not in _UNTOLD])
        for resource in resources
    ]
    return await visit.page("api_index.html", rows=rows)


async def _command_line(visit: Visit) -> Response:
    return await visit.page("cli_index.html", address=visit.request.url.netloc)


# Every address knows these.
_UNTOLD: Final = frozenset({"HEAD", "OPTIONS"})

PAGES: Final = (
    Page(path=API_PATH, get=_api, is_open=True),
    Page(path=CLI_PATH, get=_command_line, is_open=True),
)
