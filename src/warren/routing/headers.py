"""Headers exchanges: a binding's arguments are compared with the message's headers.

The argument `x-match` says how: `all` (the default) wants every other argument to be among the
headers, `any` at least one. Both pass over arguments whose names begin with `x-`; `all-with-x` and
`any-with-x` compare those as well, except for `x-match` itself. An argument without a value (void)
only wants the header to be there. So `all` without arguments matches everything, `any` nothing.

Values are compared as RabbitMQ compares the Erlang terms they become: the type tag is left out, so
that 1 equals 1 of any integer type, 1.0 and the timestamp 1, but neither "1" nor true; inside
arrays and tables the tags count. `_term` turns a field into a Python value that is equal exactly
when RabbitMQ's is. Should a name occur twice, its first occurrences are compared with each other,
then its second ones: that is what RabbitMQ's merge of two sorted lists amounts to.

Comparing each binding with each message costs what the exchange has bindings. Instead a binding
waits at the arguments which could make it match: at all of them for `any`, at one of them for
`all`. A message looks where its own headers are and tests only what waits there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from warren.model.erlang import render_value
from warren.model.errors import SoftError, precondition_failed
from warren.model.fields import EMPTY_TABLE, Field, Table
from warren.model.records import BindingRecord, Destination
from warren.routing.matcher import Destinations, count_in, count_out

X_MATCH: Final = "x-match"
_MATCH_KINDS: Final = (b"all", b"any", b"all-with-x", b"any-with-x")

# A header's name and which occurrence of it this is: 0 for the first.
_Slot: TypeAlias = tuple[str, int]
# Where bindings wait: at a slot with a certain value, or (None) at a slot with any value.
_Place: TypeAlias = tuple[_Slot, Hashable]
_ANY_VALUE: Final = None


def validate_x_match(arguments: Table) -> None:
    field = arguments.get(X_MATCH)
    if field is None or (field.kind == "S" and field.value in _MATCH_KINDS):
        return
    raise _invalid_x_match(field)


def _invalid_x_match(field: Field) -> SoftError:
    if field.kind == "S":
        return precondition_failed(
            f"Invalid x-match field value {render_value(field.value)}; "
            "expected all, any, all-with-x, or any-with-x"
        )
    return precondition_failed(
        f"Invalid x-match field type {field.type_name} (value {render_value(field.value)}); "
        "expected longstr"
    )


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What a binding asks for. Bindings that ask for the same are tested once."""

    wants_all: bool
    places: frozenset[_Place]

    @property
    def waits_at(self) -> Iterable[_Place]:
        """The places of which a matching message has at least one."""
        if not self.wants_all:
            return self.places
        # A certain value is met less often than the mere presence of a header.
        return sorted(self.places, key=_rarest_first)[:1]

    def matches(self, places: dict[_Place, None]) -> bool:
        """Whether a message with these places, one of `waits_at` among them, matches."""
        return not self.wants_all or all(place in places for place in self.places)


def _rarest_first(place: _Place) -> tuple[bool, _Slot]:
    slot, value = place
    return value is _ANY_VALUE, slot


class HeadersMatcher:
    def __init__(self) -> None:
        self._destinations: dict[_Pattern, Destinations] = {}
        self._waiting: dict[_Place, dict[_Pattern, None]] = {}

    def add(self, binding: BindingRecord) -> None:
        pattern = _read_pattern(binding.arguments)
        if pattern not in self._destinations:
            self._destinations[pattern] = {}
            for place in pattern.waits_at:
                self._waiting.setdefault(place, {})[pattern] = None
        count_in(self._destinations[pattern], binding.destination)

    def remove(self, binding: BindingRecord) -> None:
        pattern = _read_pattern(binding.arguments)
        destinations = self._destinations[pattern]
        count_out(destinations, binding.destination)
        if destinations:
            return
        del self._destinations[pattern]
        for place in pattern.waits_at:
            del self._waiting[place][pattern]
            if not self._waiting[place]:
                del self._waiting[place]

    def match(self, routing_key: str, headers: Table | None) -> Iterable[Destination]:
        places: dict[_Place, None] = {}
        for slot, field in _slots(headers or EMPTY_TABLE):
            places[slot, _term(field)] = None
            places[slot, _ANY_VALUE] = None
        matched: Destinations = dict(self._destinations.get(_MATCHES_EVERYTHING, {}))
        for place in places:
            for pattern in self._waiting.get(place, ()):
                if pattern.matches(places):
                    matched.update(self._destinations[pattern])
        return matched


_MATCHES_EVERYTHING: Final = _Pattern(wants_all=True, places=frozenset())


def _read_pattern(arguments: Table) -> _Pattern:
    x_match = arguments.get(X_MATCH)
    how = x_match.value if x_match is not None else None
    with_x = how in (b"all-with-x", b"any-with-x")
    places = frozenset(
        (slot, _ANY_VALUE if field.kind == "V" else _term(field))
        for slot, field in _slots(arguments)
        if slot[0] != X_MATCH and (with_x or not slot[0].startswith("x-"))
    )
    return _Pattern(wants_all=how not in (b"any", b"any-with-x"), places=places)


def _slots(table: Table) -> Iterator[tuple[_Slot, Field]]:
    seen: dict[str, int] = {}
    for name, field in table:
        occurrence = seen.get(name, 0)
        seen[name] = occurrence + 1
        yield (name, occurrence), field


def _term(field: Field) -> Hashable:
    """A value equal to another's exactly when RabbitMQ finds the two fields' values equal.

    Python holds True equal to 1, Erlang does not: booleans, like the other atom, become text,
    which no other kind of field does.
    """
    value = field.value
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Table):
        return tuple((name, inner.type_name, _term(inner)) for name, inner in value)
    if field.kind == "A" and isinstance(value, tuple):
        members = (inner for inner in value if isinstance(inner, Field))
        return tuple((inner.type_name, _term(inner)) for inner in members)
    return value
