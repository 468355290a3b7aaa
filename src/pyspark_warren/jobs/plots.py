"""Plots as SVG, made here, so that a report is one file that needs nothing else to be seen.

Colours are the page's (`reports.py`), so that they fit a light page as well as a dark one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 240
LEFT: Final = 64
BOTTOM: Final = 28
TOP: Final = 12
COLOURS: Final = 8
LABELS_MAX: Final = 8
LETTER_WIDTH: Final = 6.6
BARS_MAX: Final = 25
BAR_WIDTH_MAX: Final = 48.0
STEPS: Final = 4
NOTHING: Final = '<p class="nothing">Nothing.</p>'


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from 0, in steps that people count in: 1, 2 or 5, and noughts."""

    step: float
    steps: int

    @property
    def top(self) -> float:
        return self.step * self.steps

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - BOTTOM - TOP)


def scale_of(greatest: float, least_step: float = 0.0) -> Scale:
    """One that reaches just above the greatest number.

    Examples
    --------
    >>> scale_of(87), scale_of(3, least_step=1)
    (Scale(step=50.0, steps=2), Scale(step=1.0, steps=3))
    """
    if greatest <= 0:
        return Scale(max(1.0, least_step), 1)
    unit = 10.0 ** math.floor(math.log10(greatest / STEPS))
    step = next(unit * n for n in (1, 2, 5, 10) if unit * n * STEPS >= greatest)
    step = max(step, least_step)
    return Scale(step, math.ceil(greatest / step - 1e-9))


def colour(number: int) -> str:
    return f"var(--c{number % COLOURS})"


def shown(number: float) -> str:
    """A number for an axis: 1.2k, 3M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def stacked_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """One bar for each label, made up of what each series has there: of things that are counted."""
    totals = [sum(values[at] for values in series.values()) for at in range(len(labels))]
    if not any(totals):
        return NOTHING
    scale = scale_of(max(totals), least_step=1)
    step = (WIDTH - LEFT) / len(labels)
    width = max(1.0, min(step - min(2.0, step / 4), BAR_WIDTH_MAX))
    parts = [_axis(scale), _labels(labels, step)]
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
    return _svg(parts) + _legend(list(series))


def lines(
    moments: Sequence[str], series: Mapping[str, Sequence[float | None]], least: float = 0.0
) -> str:
    """A line for each series, with a gap where it has nothing; the axis goes to `least` or more."""
    known = [value for values in series.values() for value in values if value is not None]
    if not known:
        return NOTHING
    scale = scale_of(max(*known, least))
    step = (WIDTH - LEFT) / len(moments)
    parts = [_axis(scale), _labels(moments, step)]
    for number, (name, values) in enumerate(series.items()):
        points = [
            None if value is None else (LEFT + (at + 0.5) * step, scale.y(value))
            for at, value in enumerate(values)
        ]
        parts.append(f'<g fill="{colour(number)}" stroke="{colour(number)}">')
        parts.append(f"<title>{escape(name)}</title>{_line(points)}</g>")
    return _svg(parts) + _legend(list(series))


def bars_across(values: Mapping[str, float]) -> str:
    """A bar from left to right for each name, the longest first."""
    chosen = sorted(values.items(), key=lambda item: -item[1])[:BARS_MAX]
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


def _line(points: Sequence[tuple[float, float] | None]) -> str:
    """Pieces between gaps. A piece of one point would not be seen as a line, so it is a dot."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    drawn = []
    for piece in filter(None, pieces):
        if len(piece) == 1:
            drawn.append(f'<circle cx="{piece[0][0]:.1f}" cy="{piece[0][1]:.1f}" r="2"/>')
        else:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in piece)
            drawn.append(f'<polyline points="{path}" fill="none" stroke-width="1.6"/>')
    return "".join(drawn)


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _axis(scale: Scale) -> str:
    drawn = []
    for number in range(scale.steps + 1):
        value = number * scale.step
        y = scale.y(value)
        drawn.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown(value)}</text>'
        )
    return "".join(drawn)


def _labels(labels: Sequence[str], step: float) -> str:
    """As many as there is room for, none of them beyond the edge."""
    width = LETTER_WIDTH * max(len(label) for label in labels)
    room = max(1, min(LABELS_MAX, int((WIDTH - LEFT) / (width + 2 * LETTER_WIDTH))))
    every = -(-len(labels) // room)
    return "".join(
        f'<text x="{min(LEFT + (at + 0.5) * step, WIDTH - width / 2):.1f}" y="{HEIGHT - 8}" '
        f'text-anchor="middle">{escape(labels[at])}</text>'
        for at in range(0, len(labels), every)
    )


def _legend(names: Sequence[str]) -> str:
    keys = [
        f'<span><i style="background:{colour(number)}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'
