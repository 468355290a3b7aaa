"""All that the page has, by subject."""

from __future__ import annotations

from typing import Final

from warren.management.page import static_files
from warren.management.page.address import Page
from warren.management.page.pages import (
    admin,
    connections,
    dead_letters,
    exchanges,
    login,
    nodes,
    openid_login,
    overview,
    policies,
    queue,
    queues,
    references,
    streams,
)

PAGES: Final[tuple[Page, ...]] = (
    *static_files.PAGES,
    *login.PAGES,
    *openid_login.PAGES,
    *overview.PAGES,
    *nodes.PAGES,
    *connections.PAGES,
    *exchanges.PAGES,
    *queues.PAGES,
    *queue.PAGES,
    *dead_letters.PAGES,
    *policies.PAGES,
    *references.PAGES,
    *streams.PAGES,
    *admin.PAGES,
)
