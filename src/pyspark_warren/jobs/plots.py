"""Plots as SVG, made here, so that a report is one file that needs nothing else to be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 240
LEFT: Final = 64
BOTTOM: Final = 28
TOP: Final = 12
COLOURS: Final = (
    "#3b6ea8", "#c8553d", "#588157", "#8e6c8a", "#d4a017", "#4aa3a2", "#7d5a50", "#6c757d",
)  # fmt: skip
LABELS_MAX: Final = 8
BARS_MAX: Final = 25


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def shown(number: float) -> str:
    """A number for an axis: 1.2k, 3M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def stacked_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """One bar for each label, made up of what each series has there."""
    totals = [sum(values[at] for values in series.values()) for at in range(len(labels))]
    top = max(totals, default=0) or 1
    step = (WIDTH - LEFT) / max(1, len(labels))
    parts = [_axis(top), _labels(labels, step)]
    for at in range(len(labels)):
        base = float(HEIGHT - BOTTOM)
        for number, (name, values) in enumerate(series.items()):
            height = values[at] / top * (HEIGHT - BOTTOM - TOP)
            base -= height
            title = escape(f"{labels[at]} {name}: {values[at]:g}")
            parts.append(
                f'<rect x="{LEFT + at * step + 1:.1f}" y="{base:.1f}" '
                f'width="{max(1.0, step - 2):.1f}" height="{height:.1f}" fill="{colour(number)}">'
                f"<title>{title}</title></rect>"
            )
    return _svg(parts) + _legend(list(series))


def lines(moments: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """A line for each series; where it has nothing, there is a gap."""
    known = [value for values in series.values() for value in values if value is not None]
    top = max(known, default=0) or 1
    step = (WIDTH - LEFT) / max(1, len(moments))
    parts = [_axis(top), _labels(moments, step)]
    for number, values in enumerate(series.values()):
        path, is_down = "", False
        for at, value in enumerate(values):
            if value is None:
                is_down = False
                continue
            y = HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)
            path += f"{'L' if is_down else 'M'}{LEFT + (at + 0.5) * step:.1f} {y:.1f}"
            is_down = True
        parts.append(f'<path d="{path}" fill="none" stroke="{colour(number)}" stroke-width="1.6"/>')
    return _svg(parts) + _legend(list(series))


def bars_across(values: Mapping[str, float]) -> str:
    """A bar from left to right for each name, the longest first."""
    chosen = sorted(values.items(), key=lambda item: -item[1])[:BARS_MAX]
    top = max((value for _, value in chosen), default=0) or 1
    rows = [
        f'<tr><td>{escape(name)}</td><td class="n">{value:g}</td>'
        f'<td><div class="bar" style="width:{value / top * 400:.0f}px"></div></td></tr>'
        for name, value in chosen
    ]
    return f"<table>{''.join(rows)}</table>"


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def _axis(top: float) -> str:
    drawn = []
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
        drawn.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown(part * top)}</text>'
        )
    return "".join(drawn)


def _labels(labels: Sequence[str], step: float) -> str:
    every = max(1, -(-len(labels) // LABELS_MAX))
    return "".join(
        f'<text x="{LEFT + (at + 0.5) * step:.1f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(labels[at])}</text>"
        for at in range(0, len(labels), every)
    )


def _legend(names: Sequence[str]) -> str:
    keys = [
        f'<span><i style="background:{colour(number)}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'
