"""The ring of a mirrored queue as something to draw: members on a circle, in their order.

Every member passes on to its right-hand neighbour, the last to the first, so the arrows go round.
The view and the epoch stand in the middle.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from warren.management.json_types import JsonObject

WIDTH: Final = 480
HEIGHT: Final = 310
_RADIUS: Final = 96
_MEMBER_RADIUS: Final = 25
_GAP: Final = 8
_FULL: Final = 100
# Above or below rather than beside.
_STEEP: Final = 0.3


class Label(NamedTuple):
    """Outside the circle, so that no arrow goes through it."""

    x: float
    y: float
    anchor: str


class Place(NamedTuple):
    member: JsonObject
    x: float
    y: float
    label: Label
    share: float | None
    """Of what there is, how much it has, in per cent; None while nobody can say."""


class Arrow(NamedTuple):
    path: str
    is_live: bool


class RingDrawing(NamedTuple):
    width: int
    height: int
    places: list[Place]
    arrows: list[Arrow]


def draw_ring(ring: JsonObject, messages: int) -> RingDrawing:
    members = ring["members"]
    places = [
        _place(member, number, len(members), messages) for number, member in enumerate(members)
    ]
    arrows = []
    if len(members) > 1:
        for number, member in enumerate(members):
            neighbour = members[(number + 1) % len(members)]
            is_live = member["is_live"] and neighbour["is_live"]
            arrows.append(Arrow(_arc(number, len(members)), is_live))
    return RingDrawing(WIDTH, HEIGHT, places, arrows)


def _angle(number: float, count: int) -> float:
    """Clockwise from the top; two stand side by side."""
    return 2 * math.pi * number / count - math.pi / 2 - (math.pi / 2 if count == 2 else 0)


def _point(angle: float) -> tuple[float, float]:
    return WIDTH / 2 + _RADIUS * math.cos(angle), HEIGHT / 2 + _RADIUS * math.sin(angle)


def _place(member: JsonObject, number: int, count: int, messages: int) -> Place:
    angle = _angle(number, count)
    x, y = _point(angle)
    lacking = member["lacking"]
    share: float | None = None
    if lacking is not None:
        share = _FULL * (1 - min(lacking, messages) / messages) if messages else _FULL
        share = min(share, _FULL - 1) if lacking else _FULL
    return Place(member, round(x, 1), round(y, 1), _label(x, y, angle), share)


def _label(x: float, y: float, angle: float) -> Label:
    away = _MEMBER_RADIUS + 9
    across, down = math.cos(angle), math.sin(angle)
    anchor = "middle" if abs(across) < _STEEP else "start" if across > 0 else "end"
    return Label(round(x + away * across, 1), round(y + (away + 5) * down + 5, 1), anchor)


def _arc(number: int, count: int) -> str:
    """Along the circle, from the edge of one member to the edge of the next."""
    room = (_MEMBER_RADIUS + _GAP) / _RADIUS
    start_x, start_y = _point(_angle(number, count) + room)
    end_x, end_y = _point(_angle(number + 1, count) - room)
    return f"M{start_x:.1f} {start_y:.1f} A{_RADIUS} {_RADIUS} 0 0 1 {end_x:.1f} {end_y:.1f}"
