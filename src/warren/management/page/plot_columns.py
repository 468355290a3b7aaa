"""Columns of a plot, as uPlot wants them: moments in seconds first, then a list for each line.

A moment at which a figure was not sampled is None, which is drawn as a gap. Where nothing at all
was sampled for longer than a step, there is a row of None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from warren.management.json_types import JsonObject

Samples: TypeAlias = Sequence[JsonObject]
"""Newest first, as the API has them."""
Column: TypeAlias = list[float | None]

# Samples further apart than so many steps have a gap between them.
_STEPS_MAX = 1.5
NODES = "Nodes"


def columns_of(
    lines: Mapping[str, Samples], step_s: int, is_growth: bool = False, has_nodes: bool = False
) -> JsonObject:
    """Return the plot of these lines, by title, the oldest sample first.

    `is_growth`: as growth per second. `has_nodes`: with a line for how many nodes were counted.
    """
    values = {title: {s["timestamp"]: s["sample"] for s in lines[title]} for title in lines}
    nodes = {s["timestamp"]: s.get("nodes") for samples in lines.values() for s in samples}
    moments = _moments({t for samples in values.values() for t in samples}, step_s)
    columns = {title: [values[title].get(t) for t in moments] for title in lines}
    if is_growth:
        columns = {title: _growth(column, moments) for title, column in columns.items()}
    if has_nodes:
        columns[NODES] = [nodes.get(t) for t in moments]
    if is_growth:
        moments = moments[1:]
        columns = {title: column[len(column) - len(moments) :] for title, column in columns.items()}
    data = [[t / 1000 for t in moments], *columns.values()]
    return {"titles": list(columns), "data": data, "has_nodes": has_nodes}


def _moments(sampled: set[int], step_s: int) -> list[int]:
    """Return all moments in order, with one more in each gap, at which nothing was sampled."""
    moments: list[int] = []
    for moment in sorted(sampled):
        if moments and moment - moments[-1] > _STEPS_MAX * 1000 * step_s:
            moments.append(moments[-1] + 1000 * step_s)
        moments.append(moment)
    return moments


def _growth(column: Column, moments: Sequence[int]) -> Column:
    """Return the growth per second from each moment to the next."""
    grown: Column = []
    for before, after, start, end in zip(column, column[1:], moments, moments[1:], strict=False):
        if before is None or after is None:
            grown.append(None)
        else:
            # A counter that fell began anew.
            grown.append(max(0.0, 1000 * (after - before) / max(1, end - start)))
    return grown
