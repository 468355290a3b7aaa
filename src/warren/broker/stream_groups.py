"""How far groups of readers have come in streams: a cursor for each group and stream.

A cursor is the offset that its group will read next; everything before is done with. It is kept
in the metadata store, so it is durable, known at every node and gone with its stream. To set it
again to what it is changes nothing, and to set it to less does not move it back, so that whoever
is not sure whether it was set may set it again, in any order. Going back has to be asked for.

A cursor may ask retention to wait (`retain`): what it has still to read is then kept, however long
or large the stream gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from warren.metadata.keys import ParsedKey, cursor_key, queue_key
from warren.metadata.policy_codec import decode_parameter, encode_parameter
from warren.metadata.store import Check, Delete, MetadataError, MetadataStore, Put, Record
from warren.model.clock import Clock
from warren.model.errors import AmqpError, not_found
from warren.model.logs import EventLog
from warren.model.records import describe_queue

# How often somebody else may be quicker before we give up.
ATTEMPTS_MAX: Final = 32
GROUPS_PER_STREAM_MAX: Final = 1_000

_log = EventLog("stream")


class TooManyGroups(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class GroupCursor:
    offset: int
    retain: bool = False
    updated_at_ms: int = 0


_NONE: Final[Mapping[str, GroupCursor]] = MappingProxyType({})


class StreamGroups:
    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursors: dict[tuple[str, str], dict[str, GroupCursor]] = {}

    def of_stream(self, vhost: str, queue: str) -> Mapping[str, GroupCursor]:
        """By group."""
        return self._cursors.get((vhost, queue), _NONE)

    def keys_of(self, vhost: str, queue: str) -> list[str]:
        """What goes with the stream."""
        return [cursor_key(vhost, queue, group) for group in self.of_stream(vhost, queue)]

    def held_from(self, vhost: str, queue: str) -> int | None:
        """The first offset that retention is to leave; None if nobody has asked for any."""
        cursors = self.of_stream(vhost, queue).values()
        return min([cursor.offset for cursor in cursors if cursor.retain], default=None)

    def cursors_of(self, vhost: str, queue: str) -> ConsumerCursors:
        """Return the cursors that consumers of a stream share, group by group."""
        return ConsumerCursors(self, vhost, queue)

    async def set(
        self, place: tuple[str, str, str], wanted: GroupCursor, *, may_go_back: bool = False
    ) -> GroupCursor:
        """Of a virtual host, queue and group; says where the cursor is now."""
        vhost, queue, group = place
        key = cursor_key(vhost, queue, group)
        others = self.of_stream(vhost, queue)
        if group not in others and len(others) >= GROUPS_PER_STREAM_MAX:
            raise TooManyGroups(f"a stream has no more than {GROUPS_PER_STREAM_MAX} groups")
        for _ in range(ATTEMPTS_MAX):
            stored = await self._store.get(key)
            before = None if stored is None else _decode(stored)
            offset = wanted.offset
            if before is not None and not may_go_back:
                offset = max(offset, before.offset)
            if before is not None and (before.offset, before.retain) == (offset, wanted.retain):
                return before
            after = GroupCursor(offset, wanted.retain, self._clock.now_ms())
            of_queue = await self._store.get(queue_key(vhost, queue))
            if of_queue is None:
                raise not_found(f"no {describe_queue(queue, vhost)}")
            checks = [
                Check(key, 0 if stored is None else stored.version),
                Check(of_queue.key, of_queue.version),
            ]
            if await self._store.transact(checks, [Put(key, _encode(after))]):
                return after
        raise AssertionError("a cursor is not set by so many at once")

    async def delete(self, vhost: str, queue: str, group: str) -> None:
        await self._store.transact([], [Delete(cursor_key(vhost, queue, group))])

    def take_in(self, key: ParsedKey, record: Record | None) -> None:
        """What the store tells."""
        vhost, queue, group = key.parts
        cursors = self._cursors.setdefault((vhost, queue), {})
        if record is None:
            cursors.pop(group, None)
        else:
            cursors[group] = _decode(record)
        if not cursors:
            del self._cursors[vhost, queue]


class ConsumerCursors:
    """The cursors of one stream, as its groups of single active consumers set them."""

    def __init__(self, groups: StreamGroups, vhost: str, queue: str) -> None:
        self._groups = groups
        self._place = vhost, queue

    def offset(self, group: str) -> int | None:
        cursor = self._groups.of_stream(*self._place).get(group)
        return None if cursor is None else cursor.offset

    async def store(self, group: str, offset: int) -> bool:
        before = self._groups.of_stream(*self._place).get(group)
        wanted = GroupCursor(offset, before is not None and before.retain)
        try:
            await self._groups.set((*self._place, group), wanted)
        except (TooManyGroups, MetadataError, AmqpError) as error:
            stream = describe_queue(self._place[1], self._place[0])
            _log.warning("group cursor not stored", stream=stream, group=group, reason=str(error))
            return False
        return True


def _encode(cursor: GroupCursor) -> bytes:
    return encode_parameter(
        {"offset": cursor.offset, "retain": cursor.retain, "updated-at": cursor.updated_at_ms}
    )


def _decode(record: Record) -> GroupCursor:
    stored = decode_parameter(record.value)
    assert isinstance(stored, dict), "it was encoded here"
    offset, updated_at_ms = stored["offset"], stored["updated-at"]
    assert isinstance(offset, int), "it was encoded here"
    assert isinstance(updated_at_ms, int), "it was encoded here"
    return GroupCursor(offset, bool(stored["retain"]), updated_at_ms)
