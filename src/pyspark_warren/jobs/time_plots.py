"""Plots over time as SVG: lines, stacked areas, and strips that show when something was so.

Lines that coincide would hide each other, so each has dashes of its own and lies on those before
it: where two coincide, both colours are seen. A line that is the same as another everywhere is
named so in the legend, which no drawing can say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from pyspark_warren.jobs.plot_frame import (
    BOTTOM,
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

DASHES: Final = ("", "10 7", "3 6", "14 5 3 5", "6 3", "2 3", "18 4", "9 3 2 3")
"""Dashes of the nth line; the first has none."""
FIRST_WIDTH: Final = 3.2
"""Wider than the others, so that it is seen beside what lies on it."""
LINE_WIDTH: Final = 1.8
ROW_HEIGHT: Final = 40
NAME_HEIGHT: Final = 22
STRIP_HEIGHT: Final = 16
SAME: Final = 1e-9

Values = Sequence[float | None]
Point = tuple[float, float]


def lines(moments: Sequence[str], series: Mapping[str, Values], least: float = 0.0) -> str:
    """Draw a line for each series, with a gap where it has nothing; the axis reaches `least`."""
    known = [value for values in series.values() for value in values if value is not None]
    if not known:
        return NOTHING
    scale = scale_of(max(*known, least))
    step = (WIDTH - LEFT) / len(moments)
    parts = [axis(scale), labels_below(moments, step)]
    for number, (name, values) in enumerate(series.items()):
        points = [
            None if value is None else (LEFT + (at + 0.5) * step, scale.y(value))
            for at, value in enumerate(values)
        ]
        parts.append(f'<g fill="{colour(number)}" stroke="{colour(number)}">')
        parts.append(f"<title>{escape(name)}</title>{_line(points, number)}</g>")
    return svg(parts) + _legend_of_lines(series)


def stacked_areas(moments: Sequence[str], series: Mapping[str, Values]) -> str:
    """Draw each series as an area on top of those before; a gap where none of them has anything."""
    totals = [
        sum(value or 0.0 for value in at_moment) if any(v is not None for v in at_moment) else None
        for at_moment in zip(*series.values(), strict=True)
    ]
    known = [total for total in totals if total is not None]
    if not known or not max(known):
        return NOTHING
    scale = scale_of(max(known), least_step=1)
    step = (WIDTH - LEFT) / len(moments)
    parts = [axis(scale), labels_below(moments, step)]
    below = [0.0] * len(moments)
    for number, (name, values) in enumerate(series.items()):
        above = [low + (value or 0.0) for low, value in zip(below, values, strict=True)]
        parts.append(f'<g fill="{colour(number)}"><title>{escape(name)}</title>')
        for first, last in _runs([total is not None for total in totals]):
            # To the edges of the moments, so that a single one is seen, too.
            xs = [LEFT + at * step for at in range(first, last + 2)]
            edges = [*range(first, last + 1), last]
            upper = [f"{x:.1f},{scale.y(above[at]):.1f}" for x, at in zip(xs, edges, strict=True)]
            lower = [f"{x:.1f},{scale.y(below[at]):.1f}" for x, at in zip(xs, edges, strict=True)]
            parts.append(f'<polygon points="{" ".join([*upper, *reversed(lower)])}"/>')
        parts.append("</g>")
        below = above
    return svg(parts) + legend(list(series))


def strips(moments: Sequence[str], rows: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> str:
    """Draw a strip for each row, coloured where it is one of `kinds`; "" leaves it empty."""
    if not any(any(values) for values in rows.values()):
        return NOTHING
    height = ROW_HEIGHT * len(rows) + BOTTOM
    step = (WIDTH - LEFT) / len(moments)
    parts = [labels_below(moments, step, height)]
    for row, (name, values) in enumerate(rows.items()):
        y = row * ROW_HEIGHT + NAME_HEIGHT
        parts.append(f'<text x="{LEFT}" y="{y - 4}">{escape(name)}</text>')
        parts.append(
            f'<rect class="s" x="{LEFT}" y="{y}" width="{WIDTH - LEFT}" height="{STRIP_HEIGHT}"/>'
        )
        for kind in kinds:
            for first, last in _runs([value == kind for value in values]):
                x, width = LEFT + first * step, max(1.5, (last + 1 - first) * step)
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{STRIP_HEIGHT}" '
                    f'fill="{colour(kinds.index(kind))}">'
                    f"<title>{escape(f'{name}: {kind}, from {moments[first]}')}</title></rect>"
                )
    return svg(parts, height) + legend(kinds)


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of moments that are so."""
    start: int | None = None
    for at, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = at
        elif not flag and start is not None:
            yield start, at - 1
            start = None


def _line(points: Sequence[Point | None], number: int) -> str:
    """Draw the pieces between gaps. A piece of one point would not be seen, so it is a dot."""
    style = _style(number)
    drawn = []
    for first, last in _runs([point is not None for point in points]):
        piece = [point for point in points[first : last + 1] if point is not None]
        if len(piece) == 1:
            drawn.append(f'<circle cx="{piece[0][0]:.1f}" cy="{piece[0][1]:.1f}" r="2.5"/>')
        else:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in piece)
            drawn.append(f'<polyline points="{path}" fill="none" {style}/>')
    return "".join(drawn)


def _style(number: int) -> str:
    dashes = DASHES[number % len(DASHES)]
    width = LINE_WIDTH if number else FIRST_WIDTH
    return f'stroke-width="{width}"' + (f' stroke-dasharray="{dashes}"' if dashes else "")


def _legend_of_lines(series: Mapping[str, Values]) -> str:
    keys = []
    names = list(series)
    for number, name in enumerate(names):
        same = next((one for one in names[:number] if _is_same(series[one], series[name])), None)
        text = name if same is None else f"{name} (same as {same})"
        keys.append(
            f'<span><svg class="key" viewBox="0 0 34 10"><line x1="0" x2="34" y1="5" y2="5" '
            f'stroke="{colour(number)}" {_style(number)}/></svg>{escape(text)}</span>'
        )
    return f'<p class="legend">{"".join(keys)}</p>'


def _is_same(some: Values, others: Values) -> bool:
    """True if two lines coincide at every moment, and are seen at one at least."""
    if all(one is None for one in some):
        return False
    return all(
        one is other or (one is not None and other is not None and abs(one - other) <= SAME)
        for one, other in zip(some, others, strict=True)
    )
