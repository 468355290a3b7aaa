"""Groups of consumers of one stream, of which one is served at a time: single active consumers.

A consumer of a stream joins a group with the arguments `x-single-active-consumer: true` and
`x-stream-group: NAME`. The first of a group is active, the others wait. When the active one goes,
the one that has waited longest goes on at the first record that was not acknowledged: records that
were delivered and not acknowledged come again (at least once), and none is passed over.

How far a group has come is also its cursor in the metadata store (`/groups/NAME` over HTTP). It is
stored when the group begins, every `STORED_EVERY_MS` and when its last consumer goes. A consumer
that comes to a group that is empty here, after a restart or a failover, begins at the cursor; its
own `x-stream-offset` counts only where the group has no cursor yet.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Final, Protocol

from warren.model.clock import Clock
from warren.model.errors import precondition_failed
from warren.model.fields import Table
from warren.model.records import QueueRecord
from warren.queues.consumers import Consumer

SINGLE_ACTIVE: Final = "x-single-active-consumer"
GROUP: Final = "x-stream-group"
GROUP_BYTES_MAX: Final = 255
STORED_EVERY_MS: Final = 5_000
"""After a failover a group may get this much again."""
UNSTORED_GROUPS_MAX: Final = 1_000
"""Empty groups of a stream that are remembered while the metadata store does not take cursors."""


class GroupCursors(Protocol):
    """The durable cursors of one stream's groups."""

    def offset(self, group: str) -> int | None: ...

    async def store(self, group: str, offset: int) -> bool:
        """Set a cursor, unless it is ahead already; False if the store does not take it."""
        ...


class _Forgetful:
    def offset(self, group: str) -> int | None:
        return None

    async def store(self, group: str, offset: int) -> bool:
        return True


NO_CURSORS: Final = _Forgetful()


class _Group:
    def __init__(self) -> None:
        self.active: Consumer | None = None
        self.waiting: dict[Consumer, None] = {}
        self.left_at: int | None = None
        """The offset at which the last active consumer left off."""
        self.stored: int | None = None
        self.is_storing = False

    @property
    def is_empty(self) -> bool:
        return self.active is None and not self.waiting


class ConsumerGroups:
    """`position_of` tells the first offset that an active consumer is not done with, if known."""

    def __init__(
        self,
        clock: Clock,
        spawn: Callable[[Coroutine[object, object, None]], object],
        position_of: Callable[[Consumer], int | None],
    ) -> None:
        self.cursors: GroupCursors = NO_CURSORS
        self._clock = clock
        self._spawn = spawn
        self._position_of = position_of
        self._groups: dict[str, _Group] = {}
        self._is_ticking = False

    def enter(self, consumer: Consumer) -> bool:
        """Return True if the consumer is to be served, False if it waits for its turn."""
        name = group_of(consumer.arguments)
        if name is None:
            return True
        self._forget_some()
        group = self._groups.setdefault(name, _Group())
        if group.active is not None:
            group.waiting[consumer] = None
            return False
        group.active = consumer
        return True

    def beginning(self, consumer: Consumer) -> int | None:
        """Return where the consumer's group goes on; None if the consumer decides."""
        name = group_of(consumer.arguments)
        if name is None:
            return None
        group = self._groups[name]
        return self.cursors.offset(name) if group.left_at is None else group.left_at

    def begun(self, consumer: Consumer) -> None:
        """The consumer is served from now on: have its position stored, at once and then often."""
        if group_of(consumer.arguments) is not None and self._groups:
            self.store_positions()
            if not self._is_ticking:
                self._is_ticking = True
                self._clock.call_later(STORED_EVERY_MS, self._tick)

    def leave(self, consumer: Consumer) -> Consumer | None:
        """Return the consumer that is to be served instead of this one, if there is one."""
        name = group_of(consumer.arguments)
        group = None if name is None else self._groups.get(name)
        if name is None or group is None:
            return None
        group.waiting.pop(consumer, None)
        if group.active is not consumer:
            return None
        position = self._position_of(consumer)
        if position is not None:
            group.left_at = position
        group.active = next(iter(group.waiting), None)
        if group.active is None:
            self._store_soon(name, group)
        else:
            del group.waiting[group.active]
        return group.active

    def hand_on(self) -> None:
        """Another node is about to be master: it has the cursors, and consumers come there anew."""
        self.store_positions()
        self._groups.clear()

    def store_positions(self) -> None:
        for name, group in list(self._groups.items()):
            self._store_soon(name, group)

    def _tick(self) -> None:
        self._is_ticking = bool(self._groups)
        if self._groups:
            self.store_positions()
            self._clock.call_later(STORED_EVERY_MS, self._tick)

    def _store_soon(self, name: str, group: _Group) -> None:
        offset = group.left_at if group.active is None else self._position_of(group.active)
        if group.is_storing:
            return
        if offset is None or offset == group.stored:
            self._forget_if_done(name, group)
            return
        group.is_storing = True
        self._spawn(self._store(name, group, offset))

    async def _store(self, name: str, group: _Group, offset: int) -> None:
        try:
            is_stored = await self.cursors.store(name, offset)
        finally:
            group.is_storing = False
        if not is_stored:
            return  # tried again at the next tick
        group.stored = offset
        if group.is_empty and group.left_at != offset and self._groups.get(name) is group:
            self._store_soon(name, group)
        else:
            self._forget_if_done(name, group)

    def _forget_if_done(self, name: str, group: _Group) -> None:
        """From here on the stored cursor counts, which an operator may set anew."""
        if group.is_empty and self._groups.get(name) is group:
            del self._groups[name]

    def _forget_some(self) -> None:
        empty = [name for name, group in self._groups.items() if group.is_empty]
        for name in empty[: max(0, len(empty) - UNSTORED_GROUPS_MAX)]:
            del self._groups[name]


def group_of(arguments: Table) -> str | None:
    """Return the name of the group of single active consumers; None for other consumers."""
    is_single, group = arguments.get(SINGLE_ACTIVE), arguments.get(GROUP)
    if is_single is None or is_single.value is not True or group is None:
        return None
    return group.value.decode(errors="replace") if isinstance(group.value, bytes) else None


def require_group(record: QueueRecord, arguments: Table) -> None:
    """Refuse a consumer of a stream that says half of what a group needs."""
    is_single, group = arguments.get(SINGLE_ACTIVE), arguments.get(GROUP)
    if is_single is not None and is_single.kind != "t":
        raise _invalid(SINGLE_ACTIVE, record, "it is true or false")
    wants_group = is_single is not None and is_single.value is True
    if wants_group and group is None:
        raise _invalid(SINGLE_ACTIVE, record, f"name the group of consumers with '{GROUP}'")
    if group is None:
        return
    if not wants_group:
        raise _invalid(GROUP, record, f"it has no effect without '{SINGLE_ACTIVE}'")
    name = group.value
    if group.kind != "S" or not isinstance(name, bytes) or not 0 < len(name) <= GROUP_BYTES_MAX:
        raise _invalid(GROUP, record, f"a group's name is text of 1 to {GROUP_BYTES_MAX} bytes")


def _invalid(argument: str, record: QueueRecord, problem: str) -> Exception:
    return precondition_failed(f"invalid arg '{argument}' for {record}: {problem}")
