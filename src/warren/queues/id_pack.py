"""A pack of ids: those of many messages, which a deduplicating queue keeps as one.

An id that is kept by itself costs nearly as much as its message does: a record in the journal, one
in a segment, a confirm. So the ids of what is published in a turn of the loop go into a pack
together, up to a bound, and are written, told to mirrors and read back as one message of the level
of ids (`id_keeping`). Its publishers wait for the pack as they wait for their messages.

A pack is kept until the last of its ids is forgotten. Ids are forgotten in the order in which they
came, but for a few, so what is kept too long is little more than one pack. After a start, ids that
had been forgotten come back with the others of their pack: the window leaves out the oldest of
those that are too many, what has expired counts no more, and of an id that is there twice the
later one counts.
"""

from __future__ import annotations

from typing import Final

from warren.model.deduplication import KEY_BYTES_MAX
from warren.queues.fate import Fate
from warren.queues.id_records import ID_EXTRA_BYTES, PACK_HEAD_BYTES, add_fields, pack_of
from warren.wire.codec import Message, QueuedMessage

PACK_BYTES_MAX: Final = 3_072
"""A pack that is longer takes no more ids."""

PROPERTY_BYTES: Final = 8
"""More than the properties of a pack take up."""

_HEAD_BYTES = PACK_HEAD_BYTES
_EXTRA_BYTES = ID_EXTRA_BYTES
_LONGEST_BYTES = ID_EXTRA_BYTES + KEY_BYTES_MAX


class IdPack:
    """A pack is the publisher of its record, and answers the publishers of all its messages."""

    def __init__(self, number: int, is_persistent: bool, embedded_below: int = 0) -> None:
        """A pack stays below that many bytes, if one id does."""
        self.number = number
        self.is_persistent = is_persistent
        self.left = 0
        """Ids in it that are not forgotten."""
        self.record: QueuedMessage | None = None
        """The stored record, or None before it is written."""
        self.is_full = False
        self.origin: str | None = None
        self._bytes = _HEAD_BYTES
        self._bytes_max = min(PACK_BYTES_MAX, embedded_below - PROPERTY_BYTES) - _LONGEST_BYTES
        self._fates: list[Fate] = []

    def add(self, fate: Fate) -> None:
        """Take the id of a message; its publishers wait for the pack, too."""
        entry = fate.entry
        entry.pack = self.number
        fate.unsafe += 1
        self.left += 1
        self._fates.append(fate)
        self._bytes += _EXTRA_BYTES + len(entry.key)
        self.is_full = self._bytes >= self._bytes_max

    def message(self) -> Message:
        """Return what to keep: the ids that were not forgotten, or refused, meanwhile."""
        keys: list[bytes] = []
        fields = bytearray()
        for fate in self._fates:
            entry = fate.entry
            if entry.is_in_window:
                keys.append(entry.key)
                add_fields(fields, entry.expires_at_ms, fate.level, fate.number, len(entry.key))
        return pack_of(keys, fields, self.is_persistent)

    def confirmed(self, sequence: int) -> None:
        fates, self._fates = self._fates, []
        for fate in fates:
            fate.confirmed(0)

    def rejected(self, sequence: int) -> None:
        fates, self._fates = self._fates, []
        for fate in fates:
            fate.rejected(0)
