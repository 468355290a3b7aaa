"""What there is, how much of it, and how it is doing, with the past of it as plots."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.listing import json_response
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
from warren.management.page.plot_columns import Samples, columns_of
from warren.management.page.visit import Visit

# How far back plots go, and in which steps, in seconds.
SPANS: Final = {
    "10min": ("10 minutes", 600, 5),
    "1h": ("1 hour", 3_600, 60),
    "8h": ("8 hours", 28_800, 600),
    "1d": ("1 day", 86_400, 1_800),
}
SPAN_DEFAULT: Final = "10min"
# More lines than that nobody can tell apart.
NODES_PLOTTED_MAX: Final = 8

_RATES: Final = (
    ("publish", "Published"),
    ("deliver_get", "Delivered"),
    ("ack", "Acknowledged"),
    ("confirm", "Confirmed"),
    ("redeliver", "Redelivered"),
)
_LENGTHS: Final = (
    ("messages_ready", "Ready"),
    ("messages_unacknowledged", "Unacknowledged"),
)


class _Limited(NamedTuple):
    """A figure of a node, and the limit that it is drawn against."""

    figure: str
    limit: str
    title: str


_MEMORY: Final = _Limited("mem_used", "mem_limit", "Watermark")
_DISK: Final = _Limited("disk_free", "disk_free_limit", "Limit")


async def _show(visit: Visit) -> Response:
    overview = await visit.api.get("overview")
    nodes, alarms = [], []
    if visit.caller.is_monitor:
        nodes = await visit.api.get("nodes")
        alarms = await visit.api.get("warren", "alarms")
    return await visit.page(
        "overview.html",
        overview=overview,
        nodes=nodes,
        alarms=alarms,
        rates=[(title, _rate(overview, name)) for name, title in _RATES],
        spans=[(key, title) for key, (title, *_) in SPANS.items()],
        span=_span(visit),
    )


def _rate(overview: JsonObject, name: str) -> float:
    details = overview["message_stats"].get(f"{name}_details", {})
    return float(details.get("rate", 0.0))


def _span(visit: Visit) -> str:
    wanted = visit.query.get("span", SPAN_DEFAULT)
    return wanted if wanted in SPANS else SPAN_DEFAULT


async def _plots(visit: Visit) -> Response:
    """Columns as uPlot wants them: moments in seconds first, then a list for each line."""
    if not visit.caller.is_monitor:
        raise Refused(403, "Plots are for users with the tag monitoring or administrator.")
    _, age_s, step_s = SPANS[_span(visit)]
    asked = {"age": str(age_s), "incr": str(step_s)}
    overview = await visit.api.get("overview", query=_past(asked, "msg_rates", "lengths"))
    machines = await visit.api.get("warren", "history", "nodes", query=_past(asked, "node_stats"))
    nodes = await visit.api.get("nodes")
    has_nodes = overview["nodes_total"] > 1
    rates = _lines(overview["message_stats"], _RATES)
    lengths = _lines(overview["queue_totals"], _LENGTHS)
    return json_response(
        {
            "rates": columns_of(rates, step_s, is_growth=True, has_nodes=has_nodes),
            "lengths": columns_of(lengths, step_s, has_nodes=has_nodes),
            "memory": _machine_plot(machines, nodes, _MEMORY, step_s),
            "disk": _machine_plot(machines, nodes, _DISK, step_s),
        }
    )


def _past(asked: dict[str, str], *kinds: str) -> dict[str, str]:
    return {f"{kind}_{what}": value for kind in kinds for what, value in asked.items()}


def _lines(figures: JsonObject, lines: tuple[tuple[str, str], ...]) -> dict[str, Samples]:
    return {title: figures.get(f"{name}_details", {}).get("samples", []) for name, title in lines}


def _machine_plot(
    machines: JsonObject, nodes: list[JsonObject], limited: _Limited, step_s: int
) -> Any:
    """A line for each node, also for one that is down: it had a past."""
    names = sorted(machines)[:NODES_PLOTTED_MAX]
    plot = columns_of({name: machines[name].get(limited.figure, []) for name in names}, step_s)
    limits = [node[limited.limit] for node in nodes if node.get(limited.limit)]
    if limits:
        plot["titles"].append(limited.title)
        plot["data"].append([limits[0]] * len(plot["data"][0]))
    return plot


PAGES: Final = (
    Page(path="/", get=_show),
    Page(path="/index.html", get=_show),
    Page(path="/overview/plots", get=_plots),
)
