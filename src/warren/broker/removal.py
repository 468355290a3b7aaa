"""What goes along when an exchange, a queue or a binding goes.

Bindings go with either of their ends. An auto-delete exchange goes with the last binding of which
it is the source, and then those that lead to it go too, and so on up the line.

**Against whom.** The plan is made from what this node knows, and something may be added before it
reaches the store. Two things keep it right.

1. An auto-delete exchange gets a new version in the store whenever a binding from it is made or
   removed, and the plan insists on the version it has seen. So nobody deletes one that has just
   got a binding, and of two who remove the last two bindings the second sees that it is the last.
2. For other ends that would be too dear: all who bind to a popular exchange would stand in line.
   There, a binding made at the last moment is left over: an *orphan*. Making a binding insists on
   the versions of both its ends, so it came before the end went, and everybody who is told that
   the end went knows of it already. It is dropped from memory at once, and removed from the store,
   with all that goes along, before the removal is answered; should the node die between the two,
   at the next start.

An end with very many bindings loses most of them ahead, in transactions of their own
(`first_of_many`). Each of these is what unbinding would be, so both rules hold for it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from warren.broker.topology import Topology
from warren.model.records import BindingRecord, Destination, DestinationKind

# Bindings that one transaction takes away: 2 or 3 ms of the event loop, when they are deleted and
# again when the topology is told.
BINDINGS_AT_ONCE_MAX: Final = 128


@dataclass(slots=True)
class Removal:
    """Dictionaries serve as ordered sets."""

    queues: dict[str, None] = field(default_factory=dict)
    exchanges: dict[str, None] = field(default_factory=dict)
    bindings: dict[BindingRecord, None] = field(default_factory=dict)
    # Auto-delete exchanges that lose a binding and stay.
    spared: dict[str, None] = field(default_factory=dict)


def plan_removal(
    topology: Topology,
    queues: Iterable[str] = (),
    exchanges: Iterable[str] = (),
    bindings: Iterable[BindingRecord] = (),
) -> Removal:
    removal = Removal(dict.fromkeys(queues), {}, dict.fromkeys(bindings))
    for name in removal.queues:
        _take_bindings_to(topology, removal, Destination(DestinationKind.QUEUE, name))
    leaving = [*exchanges] or _left_without_bindings(topology, removal)
    while leaving:
        for name in leaving:
            removal.exchanges[name] = None
            removal.bindings.update(dict.fromkeys(topology.bindings.of_source(name)))
            _take_bindings_to(topology, removal, Destination(DestinationKind.EXCHANGE, name))
        leaving = _left_without_bindings(topology, removal)
    removal.spared = _auto_delete_sources(topology, removal)
    return removal


def first_of_many(
    topology: Topology, queues: Iterable[str] = (), exchanges: Iterable[str] = ()
) -> tuple[BindingRecord, ...]:
    """Return bindings to remove ahead of these ends; none if all of them may go at once."""
    table, most = topology.bindings, BINDINGS_AT_ONCE_MAX
    sources = [*exchanges]
    ends = [Destination(DestinationKind.QUEUE, name) for name in queues]
    ends += [Destination(DestinationKind.EXCHANGE, name) for name in sources]
    total = sum(map(table.count_of_source, sources)) + sum(map(table.count_of_destination, ends))
    if total <= most:
        return ()
    first = [each for name in sources for each in table.first_of_source(name, most)]
    for end in ends:
        first += table.first_of_destination(end, most)
    return tuple(dict.fromkeys(first))[:most]


def _take_bindings_to(topology: Topology, removal: Removal, end: Destination) -> None:
    removal.bindings.update(dict.fromkeys(topology.bindings.of_destination(end)))


def _left_without_bindings(topology: Topology, removal: Removal) -> list[str]:
    # Orphans are not counted: they are no bindings any more.
    lost = Counter(each.source for each in removal.bindings if each in topology.bindings)
    return [
        name
        for name in _auto_delete_sources(topology, removal)
        if lost[name] == topology.bindings.count_of_source(name)
    ]


def _auto_delete_sources(topology: Topology, removal: Removal) -> dict[str, None]:
    """Of the bindings that go; those that go themselves left out."""
    sources = dict.fromkeys(binding.source for binding in removal.bindings)
    return {
        name: None
        for name in sources
        if name not in removal.exchanges and _is_auto_delete(topology, name)
    }


def _is_auto_delete(topology: Topology, exchange: str) -> bool:
    """An orphan's source may be gone."""
    return exchange in topology.exchanges and topology.exchanges[exchange].record.auto_delete
