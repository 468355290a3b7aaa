"""A number that changes whenever a route may have changed.

Channels keep the routes they have used. Telling every channel about every change would make a
declare as dear as there are channels; instead each compares this number before it trusts a route.
"""

from __future__ import annotations


class TopologyVersion:
    def __init__(self) -> None:
        self.value = 1

    def bump(self) -> None:
        self.value += 1
