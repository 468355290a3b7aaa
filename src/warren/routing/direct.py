"""Direct exchanges: the routing key equals the binding key."""

from __future__ import annotations

from collections.abc import Iterable

from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination
from warren.routing.matcher import Destinations, count_in, count_out


class DirectMatcher:
    def __init__(self) -> None:
        self._by_key: dict[str, Destinations] = {}

    def add(self, binding: BindingRecord) -> None:
        count_in(self._by_key.setdefault(binding.routing_key, {}), binding.destination)

    def remove(self, binding: BindingRecord) -> None:
        destinations = self._by_key[binding.routing_key]
        count_out(destinations, binding.destination)
        if not destinations:
            del self._by_key[binding.routing_key]

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        return self._by_key.get(routing_key, ())
