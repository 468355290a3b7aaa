"""Line of a configuration: a key of rabbitmq.conf with its value, and its place in a file."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    place: str
    key: str
    value: str
