"""The frame of a plot: its size, axes, colours and legend, as SVG and HTML.

Colours are the page's (`reports.py`), so that they fit a light page as well as a dark one. On a
narrow screen the page enlarges the text of plots and hides labels of class `w` (wide), so that what
is left can be read there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 240
LEFT: Final = 64
BOTTOM: Final = 32
TOP: Final = 12
COLOURS: Final = 8
LABELS_MAX: Final = 8
LETTER_WIDTH: Final = 6.6
NARROW: Final = 2.0
"""How much larger letters are on a narrow screen."""
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
    """Return a scale that reaches just above the greatest number.

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
    """Return a number for an axis: 1.2k, 3M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def svg(parts: Sequence[str], height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def axis(scale: Scale) -> str:
    drawn = []
    for number in range(scale.steps + 1):
        value = number * scale.step
        y = scale.y(value)
        drawn.append(f'<line class="g" x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown(value)}</text>'
        )
    return "".join(drawn)


def labels_below(labels: Sequence[str], step: float, height: int = HEIGHT) -> str:
    """Return as many labels as there is room for, none of them beyond the edge."""
    width = LETTER_WIDTH * max(len(label) for label in labels)
    room = max(1, min(LABELS_MAX, int((WIDTH - LEFT) / (width + 2 * LETTER_WIDTH))))
    every = -(-len(labels) // room)
    drawn = []
    for number, at in enumerate(range(0, len(labels), every)):
        middle = LEFT + (at + 0.5) * step
        half = NARROW * width / 2
        is_beyond = middle + half > WIDTH or middle < half
        of_kind = ' class="w"' if is_beyond or (number % 2 and every * step < 2.2 * half) else ""
        drawn.append(
            f'<text{of_kind} x="{min(middle, WIDTH - width / 2):.1f}" y="{height - 7}" '
            f'text-anchor="middle">{escape(labels[at])}</text>'
        )
    return "".join(drawn)


def legend(names: Sequence[str]) -> str:
    keys = [
        f'<span><i style="background:{colour(number)}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    ]
    return f'<p class="legend">{"".join(keys)}</p>'
