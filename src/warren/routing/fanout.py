"""Fanout exchanges: every binding matches every message."""

from __future__ import annotations

from collections.abc import Iterable

from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination
from warren.routing.matcher import Destinations, count_in, count_out


class FanoutMatcher:
    def __init__(self) -> None:
        self._destinations: Destinations = {}

    def add(self, binding: BindingRecord) -> None:
        count_in(self._destinations, binding.destination)

    def remove(self, binding: BindingRecord) -> None:
        count_out(self._destinations, binding.destination)

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        return self._destinations
