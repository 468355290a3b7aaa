"""What a dead message becomes before it is published again: pure functions, no queues.

Every death leaves a trace in the header `x-death`: an array of tables, one for each (queue, reason)
the message died of. The latest is at the front. Dying again of the same pair counts that table up
and moves it to the front, where its time, exchange and keys stay those of the first such death. The
very first death is also kept in `x-first-death-*`.

The tables behind the front are reversed at each death, since that is what RabbitMQ 3.10 does: it
groups the former tables by (queue, reason) with a fold that builds its list backwards. The order
is kept for its own sake (a client may index the array) and because cycles are found by it.

A message may die in a circle: a queue expires it to an exchange that routes it back. If nobody
rejects it on the way, it would go round for ever. The trace tells: a queue that is in it, with no
rejection from the front of the array to that table, has been reached by machinery alone, and is
skipped as a target. A death by rejection may always return: some consumer wanted it so.

Clients can write `x-death` too, and some turn it into a string when they publish a message again.
What is not an array is replaced; what in the array is not a table is kept and means nothing. Tables
of brokers before 3.6 have no `count`: two or more tables get the number of their like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from warren.model.fields import EMPTY_TABLE, Field, FieldData, Table, array, long, longstr
from warren.queues.host import DeathReason
from warren.wire.properties import Properties

__all__ = ["DeadLettered", "Death", "DeathReason", "dead_letter", "split_cycles"]

_X_DEATH: Final = "x-death"
_FIRST_DEATH: Final = "x-first-death-"
_COUNT_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Death:
    """Where, when and of what. Exchange and routing key are those it came to the queue with."""

    reason: DeathReason
    queue: str
    exchange: str
    routing_key: str
    wall_seconds: int
    blind_copies: tuple[str, ...] = ()
    """Routing keys of a BCC header, which was removed at publishing but still routes."""


class DeadLettered(NamedTuple):
    """What to publish to the dead-letter exchange; the first routing key is the one delivered."""

    properties: Properties
    routing_keys: list[str]


def dead_letter(
    properties: Properties, death: Death, dead_letter_routing_key: str | None
) -> DeadLettered:
    """The message's second life. `expiration` goes, or it would die again on arrival."""
    headers = properties.headers or EMPTY_TABLE
    copies = _carbon_copies(headers)
    headers = _record_death(headers, _describe(death, properties.expiration, copies))
    if dead_letter_routing_key is None:
        keys = [death.routing_key, *(key.decode(errors="replace") for key in copies)]
        keys += death.blind_copies
    else:
        # A new address: whoever got copies at the old one has them.
        keys = [dead_letter_routing_key]
        headers = headers.without("CC")
    return DeadLettered(replace(properties, headers=headers, expiration=None), keys)


def split_cycles(
    targets: Iterable[str], reason: DeathReason, headers: Table | None
) -> tuple[list[str], list[str]]:
    """Queues to deliver to, and queues to skip because the message would go round by itself.

    `headers` are those of the dead-lettered message, so its latest death is in them.
    """
    deaths = _deaths_in(headers)
    kept: list[str] = []
    skipped: list[str] = []
    for queue in targets:
        is_cycle = reason is not DeathReason.REJECTED and _is_automatic_cycle(queue, deaths)
        (skipped if is_cycle else kept).append(queue)
    return kept, skipped


def _describe(death: Death, expiration: str | None, copies: Sequence[bytes]) -> Table:
    items = [
        ("count", long(1)),
        ("reason", longstr(death.reason.value)),
        ("queue", longstr(death.queue)),
        ("time", Field("T", death.wall_seconds)),
        ("exchange", longstr(death.exchange)),
        ("routing-keys", array(map(longstr, (_raw(death.routing_key), *copies)))),
    ]
    if expiration is not None:
        items.append(("original-expiration", longstr(_raw(expiration))))
    return Table(items)


def _record_death(headers: Table, death: Table) -> Table:
    former = headers.get(_X_DEATH)
    if former is None:
        for name in ("reason", "queue", "exchange"):
            field = death.get(name)
            assert field is not None, "every death is described with them"
            headers = headers.replacing(_FIRST_DEATH + name, field)
    if former is None or former.kind != "A":
        return headers.replacing(_X_DEATH, array((Field("F", death),)))
    identity = _identity(death)
    latest = death
    others: list[Field] = []
    for field in _grouped(_deaths_in(headers)):
        if isinstance(field.value, Table) and _identity(field.value) == identity:
            latest = _counted_up(field.value)
        else:
            others.append(field)
    # From the second death on RabbitMQ sorts the names of the table at the front.
    latest = Table(sorted(latest, key=lambda item: _raw(item[0])))
    return headers.replacing(_X_DEATH, array((Field("F", latest), *others)))


def _grouped(deaths: Sequence[Field]) -> Sequence[Field]:
    """Return the first table of each identity, with a count, in reversed order.

    A message of an old broker, or of a creative client, may have several tables for one identity.
    A single table is returned as it is, even without a count.
    """
    if len(deaths) < 2:
        return deaths
    tables = Counter(_identity(field.value) for field in deaths if isinstance(field.value, Table))
    grouped: list[Field] = []
    for field in deaths:
        if not isinstance(field.value, Table):
            grouped.append(field)
        elif alike := tables.pop(_identity(field.value), 0):
            grouped.append(Field("F", _with_count(field.value, alike)))
    grouped.reverse()
    return grouped


def _with_count(death: Table, alike: int) -> Table:
    return death if "count" in death else Table([("count", long(alike)), *death])


def _counted_up(death: Table) -> Table:
    """Add one to the count; a table without a count that means anything begins with 1."""
    field = death.get("count")
    count = field.value if field is not None and field.is_integer else 0
    assert isinstance(count, int), "an integer type holds an integer"
    return death.replacing("count", long(min(count + 1, _COUNT_MAX)))


def _is_automatic_cycle(queue: str, deaths: Sequence[Field]) -> bool:
    name = _raw(queue)
    for field in deaths:
        if not isinstance(field.value, Table):
            return False
        if _text(field.value, "reason") == DeathReason.REJECTED.value.encode():
            return False
        if _text(field.value, "queue") == name:
            return True
    return False


def _deaths_in(headers: Table | None) -> tuple[Field, ...]:
    field = headers.get(_X_DEATH) if headers is not None else None
    if field is None or field.kind != "A" or not isinstance(field.value, tuple):
        return ()
    return tuple(item for item in field.value if isinstance(item, Field))


def _carbon_copies(headers: Table) -> list[bytes]:
    field = headers.get("CC")
    if field is None or field.kind != "A" or not isinstance(field.value, tuple):
        return []
    fields = (item for item in field.value if isinstance(item, Field) and item.kind == "S")
    return [item.value for item in fields if isinstance(item.value, bytes)]


def _identity(death: Table) -> tuple[FieldData, FieldData]:
    queue, reason = death.get("queue"), death.get("reason")
    return queue and queue.value, reason and reason.value


def _text(death: Table, name: str) -> bytes | None:
    field = death.get(name)
    return field.value if field is not None and isinstance(field.value, bytes) else None


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
