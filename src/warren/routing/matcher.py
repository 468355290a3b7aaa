"""What a kind of exchange is: a set of bindings that can say which of them a message matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeAlias

from warren.model.fields import Table
from warren.model.records import BindingRecord, Destination

# Several bindings may join the same two ends by the same key, differing in their arguments alone.
# A destination stays matched until the last of them goes, so destinations are counted.
Destinations: TypeAlias = dict[Destination, int]


class Matcher(Protocol):
    """The bindings of one exchange, in the shape that its kind searches fastest.

    The owner adds a binding once and removes only what it has added: duplicates are noticed
    before they come here.
    """

    def add(self, binding: BindingRecord) -> None: ...

    def remove(self, binding: BindingRecord) -> None: ...

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        """Destinations of matching bindings. One may come twice; the router drops repeats."""
        ...


def count_in(destinations: Destinations, destination: Destination) -> None:
    destinations[destination] = destinations.get(destination, 0) + 1


def count_out(destinations: Destinations, destination: Destination) -> None:
    left = destinations[destination] - 1
    assert left >= 0, "a binding was removed that had not been added"
    if left:
        destinations[destination] = left
    else:
        del destinations[destination]
