"""The bindings of a virtual host, found from either end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination


def normalised(binding: BindingRecord) -> BindingRecord:
    """The binding with its arguments in order of their names.

    A binding's arguments are part of its identity but their order is not, so RabbitMQ sorts them
    before it looks for, adds or removes one.
    """
    if len(binding.arguments) < 2:
        return binding
    return replace(
        binding, arguments=Table(sorted(binding.arguments, key=lambda argument: argument[0]))
    )


class BindingTable:
    def __init__(self) -> None:
        # Dictionaries serve as sets that remember the order in which bindings were made.
        self._by_source: dict[str, dict[BindingRecord, None]] = {}
        self._by_destination: dict[Destination, dict[BindingRecord, None]] = {}

    def add(self, binding: BindingRecord) -> bool:
        """False if the binding was there already."""
        if binding in self:
            return False
        self._by_source.setdefault(binding.source, {})[binding] = None
        self._by_destination.setdefault(binding.destination, {})[binding] = None
        return True

    def remove(self, binding: BindingRecord) -> bool:
        """False if there was no such binding."""
        if binding not in self:
            return False
        from_source = self._by_source[binding.source]
        del from_source[binding]
        if not from_source:
            del self._by_source[binding.source]
        to_destination = self._by_destination[binding.destination]
        del to_destination[binding]
        if not to_destination:
            del self._by_destination[binding.destination]
        return True

    def of_source(self, name: str) -> tuple[BindingRecord, ...]:
        return tuple(self._by_source.get(name, ()))

    def of_destination(self, destination: Destination) -> tuple[BindingRecord, ...]:
        return tuple(self._by_destination.get(destination, ()))

    def count_of_source(self, name: str) -> int:
        return len(self._by_source.get(name, ()))

    def count_of_destination(self, destination: Destination) -> int:
        return len(self._by_destination.get(destination, ()))

    def first_of_source(self, name: str, count: int) -> tuple[BindingRecord, ...]:
        """Return the oldest bindings of this source, at most so many."""
        return tuple(islice(self._by_source.get(name, ()), count))

    def first_of_destination(
        self, destination: Destination, count: int
    ) -> tuple[BindingRecord, ...]:
        """Return the oldest bindings to this destination, at most so many."""
        return tuple(islice(self._by_destination.get(destination, ()), count))

    def all(self) -> Iterator[BindingRecord]:
        for bindings in self._by_source.values():
            yield from bindings

    def __contains__(self, binding: BindingRecord) -> bool:
        return binding in self._by_source.get(binding.source, ())

    def __len__(self) -> int:
        return sum(len(bindings) for bindings in self._by_source.values())
