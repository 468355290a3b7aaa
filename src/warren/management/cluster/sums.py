"""Figures of what all nodes have: exchanges, virtual hosts, the overview. They are added up.

Everybody knows every exchange, but each node counts only what its own clients did with it. The
others are asked for FIGURES: by identity, what there is to add to what we show of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from warren.management.cluster.forwarding import question_of
from warren.management.cluster.peers import PeerSilent
from warren.management.columns import parse_columns
from warren.management.json_types import Json, JsonObject

if TYPE_CHECKING:
    from warren.management.call import Call

FIGURES: Final = "figures"
_OK: Final = 200
# What of an item is counted; whoever asks for other columns needs nobody's figures.
_COUNTED: Final = ("message_stats", "messages", "cluster_state")
_SUMMED: Final = ("churn_rates", "message_stats", "object_totals", "queue_totals")
_LENGTHS: Final = "queue_totals"
_AVERAGES: Final = ("avg", "avg_rate")
_LISTED: Final = ("contexts", "listeners")
# Every node counts all of these.
_SHARED: Final = "exchanges"

# What there is to add, by the identity of the item.
Figures: TypeAlias = dict[str, Any]


def add(one: JsonObject, other: JsonObject) -> JsonObject:
    """Numbers are added up, also those deeper down; what only one of them has is taken over."""
    if not other:
        return one
    total = dict(one)
    for name, value in other.items():
        total[name] = _added(total[name], value) if name in total else value
    return total


def _added(one: Json, other: Json) -> Json:
    if isinstance(one, dict) and isinstance(other, dict):
        return add(one, other)
    if _is_number(one) and _is_number(other):
        return one + other
    return one


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def total_overview(own: JsonObject, others: Sequence[JsonObject]) -> JsonObject:
    """Add up what nodes have now. Each has a past of all nodes: ours is told, with what it lacks.

    A node that has just started knows nothing of the time before, but others do.
    """
    total = dict(own)
    for other in others:
        other.get("object_totals", {}).pop(_SHARED, None)
        for name in _SUMMED:
            pasts = _taken_pasts(other.get(name, {}))
            total[name] = add(total[name], other.get(name, {}))
            for figure, samples in pasts.items():
                ours = total[name].get(figure, {}).setdefault("samples", [])
                extend_past(ours, samples, is_growing=name != _LENGTHS)
        for name in _LISTED:
            if name in total:
                total[name] = total[name] + other.get(name, [])
    for name in _LISTED:
        if name in total:
            total[name] = sorted(total[name], key=itemgetter("node"))
    return total


def _taken_pasts(figures: JsonObject) -> dict[str, list[JsonObject]]:
    """Take out what is about the past, by the name of the details that had it."""
    pasts = {}
    for name, details in figures.items():
        if isinstance(details, dict) and "samples" in details:
            pasts[name] = details.pop("samples")
            for average in _AVERAGES:
                details.pop(average, None)
    return pasts


def extend_past(ours: list[JsonObject], known: list[JsonObject], is_growing: bool = False) -> None:
    """Add samples that are older than all of ours. Both have the newest first.

    Nodes began to count what grows at different times, so theirs is moved to where ours begins.
    """
    begins_ms = ours[-1]["timestamp"] if ours else math.inf
    older = [sample for sample in known if sample["timestamp"] < begins_ms]
    if older and ours and is_growing:
        joint = next((s for s in known if s["timestamp"] == begins_ms), older[0])
        shift = ours[-1]["sample"] - joint["sample"]
        older = [{**sample, "sample": sample["sample"] + shift} for sample in older]
    ours += older


async def answers_of_all(call: Call, part: str = "") -> list[JsonObject]:
    """What the others say to the same request, each a JSON object."""
    decoded = []
    for answer in await call.peers.ask_all(question_of(call, part)):
        try:
            if answer.status == _OK:
                decoded.append(msgspec.json.decode(await answer.whole(), type=dict[str, Any]))
        except PeerSilent:
            continue
    return decoded


async def figures_elsewhere(call: Call) -> Figures:
    """Of a request about what all nodes have: what the others have counted."""
    if call.inquiry is not None or not _is_counted(call.query):
        return {}
    total: Figures = {}
    for figures in await answers_of_all(call, FIGURES):
        total = add(total, figures)
    return total


def _is_counted(query: Mapping[str, str]) -> bool:
    columns = parse_columns(query.get("columns"))
    if columns is None or query.get("sort", "").startswith(_COUNTED):
        return True
    return any(column[0].startswith(_COUNTED) for column in columns if column)
