"""What is noted of messages once they are in a segment. Compiled: it goes over each of them."""

from __future__ import annotations

from typing import Final

from warren.storage.index import states
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.segment import SEGMENT_ENTRIES, Segment
from warren.wire.codec import QueuedMessage

ENTRY_BYTES: Final = 64
"""Weight of an entry in memory, beside its body."""

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_DEAD = states.DEAD
_SCATTERING = states.SCATTERING
_SEGMENTED = states.SEGMENTED
_EMBEDDED = EMBEDDED
_TRANSIENT_FILE_MIN = states.TRANSIENT_FILE_MIN
_PLACE_MASK = SEGMENT_ENTRIES - 1
_ENTRY_BYTES = ENTRY_BYTES


def enter(segment: Segment, entries: list[QueuedMessage]) -> int:
    """All of `entries` were appended; those that died meanwhile are dead there, too.

    Returns what those that are alive weigh.
    """
    live = bytearray(SEGMENT_ENTRIES // 8)
    transient = bytearray(SEGMENT_ENTRIES // 8)
    stored = bytearray(SEGMENT_ENTRIES // 8)
    embedded_bytes = 0
    stored_bytes = 0
    weight = 0
    for queued in entries:
        place = queued.sequence & _PLACE_MASK
        if queued.state != _SCATTERING:
            assert queued.state == _DEAD, "what is being copied is alive or dead"
            segment.unwritten_acks |= 1 << int(place)
            continue
        queued.state = _SEGMENTED
        weight += queued.size + _ENTRY_BYTES
        at = place >> 3
        bit = 1 << (place & 7)
        live[at] |= bit
        if queued.store_file != _EMBEDDED:
            stored[at] |= bit
            if queued.store_file >= _TRANSIENT_FILE_MIN:
                transient[at] |= bit
            else:
                stored_bytes += queued.size
        elif queued.message.properties.persistent:
            embedded_bytes += queued.size
        else:
            transient[at] |= bit
    segment.entries += len(entries)
    segment.note_order(
        entries[0].sequence & _PLACE_MASK, entries[len(entries) - 1].sequence & _PLACE_MASK
    )
    segment.add(_places(live), _places(transient), embedded_bytes, stored_bytes)
    segment.stored |= _places(stored)
    return weight


def weigh(entries: list[QueuedMessage]) -> int:
    """What those take up that are alive and not in segments."""
    weight = 0
    for queued in entries:
        if queued.state not in (_DEAD, _SEGMENTED):
            weight += queued.size + _ENTRY_BYTES
    return weight


def weigh_all(entries: list[QueuedMessage]) -> int:
    weight = 0
    for queued in entries:
        weight += queued.size + _ENTRY_BYTES
    return weight


def leave(entries: list[QueuedMessage], state: int) -> None:
    """The file does not have them, or not for sure: those alive are in `state` again."""
    for queued in entries:
        if queued.state == _SCATTERING:
            queued.state = state


def in_state(entries: list[QueuedMessage], state: int) -> list[QueuedMessage]:
    kept = []
    for queued in entries:
        if queued.state == state:
            kept.append(queued)  # noqa: PERF401 - compiled, with the type of `queued` known
    return kept


def _places(bits: bytearray) -> int:
    return int.from_bytes(bits, "little")
