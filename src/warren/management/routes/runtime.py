"""All that is about a node at work, rather than about what is declared on it."""

from __future__ import annotations

from typing import Final

from warren.management.routes import (
    browsing,
    channels,
    connections,
    consumers,
    diagnostics,
    health,
    listeners,
    losses,
    moving,
    operations,
    overview,
    page_sessions,
    policy_reports,
    publishing,
    redundancy,
    ring,
    snapshots,
    stream_groups,
    stream_list,
    stream_names,
    streams,
)

RESOURCES: Final = (
    *browsing.RESOURCES,
    *channels.RESOURCES,
    *connections.RESOURCES,
    *consumers.RESOURCES,
    *diagnostics.RESOURCES,
    *health.RESOURCES,
    *listeners.RESOURCES,
    *losses.RESOURCES,
    *moving.RESOURCES,
    *operations.RESOURCES,
    *overview.RESOURCES,
    *page_sessions.RESOURCES,
    *policy_reports.RESOURCES,
    *publishing.RESOURCES,
    *redundancy.RESOURCES,
    *ring.RESOURCES,
    *snapshots.RESOURCES,
    *stream_groups.RESOURCES,
    *stream_list.RESOURCES,
    *stream_names.RESOURCES,
    *streams.RESOURCES,
)
