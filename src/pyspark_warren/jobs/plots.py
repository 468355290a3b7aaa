"""Plots of counts as SVG, made here, so that a report is one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from pyspark_warren.jobs.plot_frame import (
    LEFT,
    NOTHING,
    WIDTH,
    axis,
    colour,
    labels_below,
    legend,
    scale_of,
    svg,
)

BARS_MAX: Final = 25
BAR_WIDTH_MAX: Final = 48.0


def stacked_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Draw one bar for each label, made up of what each series has there."""
    totals = [sum(values[at] for values in series.values()) for at in range(len(labels))]
    if not any(totals):
        return NOTHING
    scale = scale_of(max(totals), least_step=1)
    step = (WIDTH - LEFT) / len(labels)
    width = max(1.0, min(step - min(2.0, step / 4), BAR_WIDTH_MAX))
    parts = [axis(scale), labels_below(labels, step)]
    for at, label in enumerate(labels):
        x = LEFT + (at + 0.5) * step - width / 2
        below = 0.0
        for number, (name, values) in enumerate(series.items()):
            if not values[at]:
                continue
            y = scale.y(below + values[at])
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{scale.y(below) - y:.1f}" fill="{colour(number)}">'
                f"<title>{escape(f'{label} {name}: {values[at]:g}')}</title></rect>"
            )
            below += values[at]
    return svg(parts) + legend(list(series))


def bars_across(values: Mapping[str, float], *, is_sorted: bool = False) -> str:
    """Draw a bar from left to right for each name, the longest first unless they have an order."""
    ordered = list(values.items()) if is_sorted else sorted(values.items(), key=lambda i: -i[1])
    chosen = ordered[:BARS_MAX]
    if not chosen:
        return NOTHING
    top = max(value for _, value in chosen) or 1
    rows = [
        f'<tr><td class="name">{escape(name)}</td><td class="n">{value:,.0f}</td>'
        f'<td class="across"><div class="bar" style="width:{value / top:.1%}"></div></td></tr>'
        for name, value in chosen
    ]
    left = len(values) - len(chosen)
    rest = f'<p class="nothing">And {left} more.</p>' if left else ""
    return f'<div class="wide"><table class="bars">{"".join(rows)}</table></div>{rest}'
