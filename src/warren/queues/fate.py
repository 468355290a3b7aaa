"""The fate of a message with an id: what becomes of it, for all who published it."""

from __future__ import annotations

from warren.model.deduplication import Remembered, Window
from warren.queues.boundary import PENDING, TAKEN, Publisher


class Fate:
    """The publisher of a message with an id, on behalf of those who published it, or a repeat.

    There is one in `fates` while the message, or what its id is kept in, is not safe. Mostly one
    publisher waits for that, so there is no list until there is another. The garbage collector
    looks at none of them (fate.pxd): a queue that ends has to empty `fates`.
    """

    origin: str | None
    """The origin of the first publisher, if that is another node."""
    entry: Remembered
    level: int
    number: int
    """Where the message is: its level, and its number there."""
    unsafe: int
    """The message, what its id is kept in, and while it is being published, that it is."""
    _fates: dict[bytes, Fate]
    _window: Window
    _publisher: Publisher | None
    _sequence: int
    _others: list[tuple[Publisher, int]] | None

    def wait(self, publisher: Publisher | None, sequence: int) -> int:
        if publisher is None or self.unsafe == 0:
            return TAKEN
        if self._publisher is None:
            self._publisher, self._sequence = publisher, sequence
        else:
            self._others = [*(self._others or ()), (publisher, sequence)]
        return PENDING

    def confirmed(self, sequence: int) -> None:
        if self.unsafe == 0:
            return
        self.unsafe -= 1
        if self.unsafe == 0:
            self.settled()
            if self._publisher is not None:
                self._publisher.confirmed(self._sequence)
            for publisher, number in self._others or ():
                publisher.confirmed(number)

    def rejected(self, sequence: int) -> None:
        if self.unsafe == 0:
            return
        self.unsafe = 0
        self.refused()
        if self._publisher is not None:
            self._publisher.rejected(self._sequence)
        for publisher, number in self._others or ():
            publisher.rejected(number)

    def settled(self) -> None:
        """Nobody need wait for it any more."""
        if self._fates.get(self.entry.key) is self:
            del self._fates[self.entry.key]

    def refused(self) -> None:
        """Forget the id: its publishers will send the message again."""
        self.settled()
        self._window.forget(self.entry)


def new_fate(
    fates: dict[bytes, Fate], window: Window, entry: Remembered, origin: str | None
) -> Fate:
    """Make one for a message that is about to be published.

    A constructor with arguments costs more than all else that a fate does.
    """
    fate = Fate.__new__(Fate)
    fate.origin = origin
    fate.entry = entry
    fate.level = fate.number = 0
    fate.unsafe = 2
    fate._fates = fates
    fate._window = window
    fate._publisher = None
    fate._sequence = 0
    fate._others = None
    return fate
