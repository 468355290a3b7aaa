"""Lone bodies: those of transient messages that are in a message store without an index entry.

A queue that is short of memory lets go of large bodies first, and keeps the places of messages. A
place that is in memory needs no entry on disk, since a start forgets transient messages anyway.
"""

from __future__ import annotations

from warren.storage.index.segment_entry import ENTRY_BYTES, in_state, weigh_all
from warren.storage.index.states import GATHERED, STORED, WRITING
from warren.wire.codec import QueuedMessage


class LoneBodies:
    """GATHERED ones wait for the next batch, WRITING ones are in it, `stored` are safe."""

    def __init__(self) -> None:
        self.gathered: list[QueuedMessage] = []
        self.writing: list[QueuedMessage] = []
        self.stored: dict[int, QueuedMessage] = {}
        """By sequence number: no other list of the index has these."""

    @property
    def all(self) -> list[QueuedMessage]:
        """All that may be alive, in whatever state."""
        return [*self.gathered, *self.writing, *self.stored.values()]

    def forget_dead(self) -> int:
        """Drop what was acknowledged before its batch; returns the weight of the rest."""
        self.gathered = in_state(self.gathered, GATHERED)
        return weigh_all(self.gathered)

    def take(self) -> None:
        """The batch has them now."""
        self.writing, self.gathered = in_state(self.gathered, GATHERED), []
        for queued in self.writing:
            queued.state = WRITING

    def written(self) -> int:
        """The batch is safe: returns the weight of those that are alive."""
        weight = 0
        for queued in self.writing:
            if queued.state == WRITING:
                queued.state = STORED
                self.stored[queued.sequence] = queued
                weight += queued.size + ENTRY_BYTES
        self.writing = []
        return weight

    def unwritten(self) -> list[QueuedMessage]:
        """Nothing of the batch is safe: returns those that are to be written anew."""
        writing, self.writing = self.writing, []
        return in_state(writing, WRITING)
