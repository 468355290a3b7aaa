"""What there is, how much of it, and how it is doing, with the past of it as plots."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from warren.management.json_types import JsonObject
from warren.management.listing import json_response
from warren.management.page.address import Page
from warren.management.page.api_caller import Refused
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
    nodes = await visit.api.get("nodes", query=_past(asked, "node_stats"))
    running = [node for node in nodes if node["running"]][:NODES_PLOTTED_MAX]
    return json_response(
        {
            "rates": _plot(overview["message_stats"], _RATES, is_growth=True),
            "lengths": _plot(overview["queue_totals"], _LENGTHS),
            "memory": _machine_plot(running, "mem_used", "mem_limit", "Watermark"),
            "disk": _machine_plot(running, "disk_free", "disk_free_limit", "Limit"),
        }
    )


def _past(asked: dict[str, str], *kinds: str) -> dict[str, str]:
    return {f"{kind}_{what}": value for kind in kinds for what, value in asked.items()}


def _plot(figures: JsonObject, lines: tuple[tuple[str, str], ...], is_growth: bool = False) -> Any:
    """The oldest sample first, as growth per second if that is what is wanted."""
    columns, moments = [], list[float]()
    for name, title in lines:
        samples = figures.get(f"{name}_details", {}).get("samples", [])[::-1]
        if len(samples) > len(moments):
            moments = [sample["timestamp"] / 1000 for sample in samples]
        values = [sample["sample"] for sample in samples]
        columns.append((title, _growth(values, moments) if is_growth else values))
    if is_growth:
        moments = moments[1:]
    fitting = [(title, _fitted(values, len(moments))) for title, values in columns]
    return {"titles": [title for title, _ in fitting],
            "data": [moments, *(values for _, values in fitting)]}  # fmt: skip


def _growth(values: list[float], moments: list[float]) -> list[float]:
    pairs = zip(values, values[1:], moments, moments[1:], strict=False)
    return [max(0.0, (after - before) / max(0.001, t1 - t0)) for before, after, t0, t1 in pairs]


def _fitted(values: list[float], length: int) -> list[float]:
    """A figure of which there is less of a past was nothing then."""
    return [0.0] * (length - len(values)) + values[-length:] if length else []


def _machine_plot(nodes: list[JsonObject], figure: str, limit: str, limit_title: str) -> Any:
    lines = tuple((node["name"], node["name"]) for node in nodes)
    figures = {f"{node['name']}_details": node.get(f"{figure}_details", {}) for node in nodes}
    plot = _plot(figures, lines)
    limits = [node[limit] for node in nodes if node.get(limit)]
    if limits:
        plot["titles"].append(limit_title)
        plot["data"].append([limits[0]] * len(plot["data"][0]))
    return plot


PAGES: Final = (
    Page(path="/", get=_show),
    Page(path="/index.html", get=_show),
    Page(path="/overview/plots", get=_plots),
)
