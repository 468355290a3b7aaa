"""What is noted of messages once they are in a segment. Compiled: it goes over each of them."""

from __future__ import annotations

from typing import Final

from warren.storage.index import states
from warren.storage.index.index_records import EMBEDDED
from warren.storage.index.segment import SEGMENT_ENTRIES, SEGMENT_SHIFT, Segment
from warren.wire.codec import Message, QueuedMessage

ENTRY_BYTES: Final = 64
"""Weight of an entry in memory, beside its body."""

# Numbers of other modules, which the .pxd makes C variables: a name that is imported is looked up.
_DEAD = states.DEAD
_SCATTERING = states.SCATTERING
_SEGMENTED = states.SEGMENTED
_EMBEDDED = EMBEDDED
_TRANSIENT_FILE_MIN = states.TRANSIENT_FILE_MIN
_PLACE_MASK = SEGMENT_ENTRIES - 1
_SEGMENT_SHIFT = SEGMENT_SHIFT
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


def places_by_segment(entries: list[QueuedMessage]) -> dict[int, tuple[int, int]]:
    """Group by segment: the places of each as a set, and how many bytes their bodies have."""
    found: dict[int, tuple[int, int]] = {}
    bits = bytearray(SEGMENT_ENTRIES // 8)
    body_bytes = 0
    segment = -1
    for queued in entries:
        number = queued.sequence >> _SEGMENT_SHIFT
        if number != segment:
            _note_places(found, segment, bits, body_bytes)
            segment = number
            bits = bytearray(SEGMENT_ENTRIES // 8)
            body_bytes = 0
        place = queued.sequence & _PLACE_MASK
        bits[place >> 3] |= 1 << (place & 7)
        body_bytes += queued.size
    _note_places(found, segment, bits, body_bytes)
    return found


def _note_places(
    found: dict[int, tuple[int, int]], segment: int, bits: bytearray, body_bytes: int
) -> None:
    if segment >= 0:
        places, before = found.get(segment, (0, 0))
        found[segment] = (places | _places(bits), before + body_bytes)


def embedded_of(entries: list[QueuedMessage]) -> list[QueuedMessage]:
    """Return those whose bodies are parts of their entries."""
    kept = []
    for queued in entries:
        if queued.store_file == _EMBEDDED:
            kept.append(queued)  # noqa: PERF401 - compiled, with the type of `queued` known
    return kept


def messages_of(entries: list[QueuedMessage], messages: dict[int, Message]) -> list[Message | None]:
    """Return the message of each entry, None for one that `messages` does not have."""
    found = []
    for queued in entries:
        found.append(messages.get(queued.sequence))  # noqa: PERF401 - as above
    return found


def note_messages(messages: dict[int, Message], entries: list[QueuedMessage]) -> None:
    """Put the message of each entry into `messages`, under its sequence number."""
    for queued in entries:
        messages[queued.sequence] = queued.message


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


def discard_embedded(entries: list[QueuedMessage]) -> tuple[int, list[QueuedMessage]]:
    """Mark as dead what has its body in its entry and is not in a segment.

    Returns what that weighed, and the messages that have their body in a store.
    """
    weight = 0
    stored = []
    for queued in entries:
        if queued.store_file != _EMBEDDED:
            stored.append(queued)
        elif queued.state != _SEGMENTED:
            if queued.state != _DEAD:
                weight += queued.size + _ENTRY_BYTES
            queued.state = _DEAD
    return weight, stored


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
