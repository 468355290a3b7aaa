"""A mirror: a copy that does what the master tells it, and says how far it has come.

It holds the master's messages from a boundary on, under the master's numbers (see `instructions`).
Before it has been given a boundary, what it hears is not for it: the ring brings it what the others
are told, and its own beginning is one of the instructions, in the same order for everybody.

`held` is the number of a batch: everything up to there is here, and on disk as far as it must be.
That is what the master waits for before it confirms.

A mirror does not know what the master delivers, so **all of its messages count as delivered**, and
are marked as redelivered: what the master sends, when it comes; what an earlier life of the copy
left (`adopt`), once another node leads (`follow`). That life may have been the master's: then
messages that nobody had had yet are unmarked. If they stayed so, a copy that comes back and leads
again would deliver as new what others have delivered since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from warren.queues.boundary import TAKEN
from warren.replication.classic.coverage import count_below
from warren.replication.classic.instructions import (
    Boundary,
    Changes,
    Newer,
    Older,
    Purged,
    RemovedRun,
    Resumed,
    decode,
)
from warren.replication.classic.origins import make_room_for
from warren.replication.classic.received import Received
from warren.replication.classic.retained import RetainedMessages
from warren.storage.queue.held_numbers import held_runs
from warren.storage.queue.replication import (
    mark_all,
    offer_again,
    put_at,
    put_older,
    put_run,
    remove,
    remove_span,
    retain,
)
from warren.storage.queue.variable_queue import VariableQueue
from warren.wire.codec import Message


class Mirror:
    """`on_held` is called when `held` has grown, with True if that makes messages safe.

    `on_failed` is called if the disk would not take a message.

    `level(n)` makes a level when it is first needed; a queue without priorities has level 0 alone.
    """

    def __init__(
        self,
        member: str,
        level: Callable[[int], VariableQueue],
        on_held: Callable[[int, bool], None],
        on_failed: Callable[[], None],
    ) -> None:
        self.member = member
        self.levels: dict[int, VariableQueue] = {}
        self.boundary: dict[int, int] | None = None
        self.upto: dict[int, int] | None = None
        """Of one that comes back (`rejoining`): what is newer it is going to be sent."""
        self.lacking: int | None = None
        """Messages of the master that are not here: what would be lost; None if not known."""
        self.numbers: dict[str, int] = {}
        """The last publish of each origin that the master had taken."""
        self.number = 0
        """Of the last batch that came."""
        self.held = 0
        self.is_marked = True
        """True if every message here is marked as redelivered."""
        self._make_level = level
        self._on_held = on_held
        self._on_failed = on_failed
        self._received: deque[Received] = deque()

    @property
    def depth(self) -> int:
        return sum(level.length for level in self.levels.values())

    def handle(self, payload: bytes | memoryview) -> None:
        """The next batch of the master. Raises MalformedInstruction."""
        number, instruction, messages = decode(payload)
        self.number = number
        received = Received(number, self.progress, self._on_failed)
        received.is_awaited = bool(messages) or not isinstance(instruction, Changes)
        self._received.append(received)
        # One more than there are, so that nothing is complete before all has been looked at.
        received.unsafe = len(messages) + 1
        if isinstance(instruction, Boundary):
            self._begin(instruction, received)
        elif isinstance(instruction, Resumed):
            self._resume(instruction)
        elif self.boundary is None:
            received.unsafe = 1
        else:
            self._go_on(instruction, messages, received)
        received.confirmed(0)

    def _go_on(
        self,
        instruction: Changes | Purged | Older | Newer,
        messages: list[Message],
        received: Received,
    ) -> None:
        if isinstance(instruction, Changes):
            self._change(instruction, messages, received)
        elif isinstance(instruction, Older):
            self._put_older(instruction, messages, received)
        elif isinstance(instruction, Newer):
            self._put_newer(instruction, messages, received)
        else:
            self._purge(instruction)

    # Beginning.

    def begin_empty(self) -> None:
        """Begin before the queue's first message, as a copy that lacks nothing."""
        self.boundary = {}
        self.lacking = 0

    # Coming back.

    def adopt(self, levels: Mapping[int, VariableQueue]) -> None:
        """Begin with the messages that an earlier life of this copy left."""
        self.levels.update(levels)
        self.is_marked = not self.levels

    def follow(self) -> None:
        """Mark every message: another node leads, or was the last to, and may have delivered it."""
        if not self.is_marked:
            self.is_marked = True
            for level in self.levels.values():
                mark_all(level)

    def report_retained(self) -> RetainedMessages:
        """Return what is here from before. Nothing of it changes until the master has answered."""
        self.boundary = self.upto = None
        levels = self.levels.items()
        return RetainedMessages(
            [(number, *run) for number, level in levels for run in held_runs(level)],
            {number: level.next_sequence for number, level in levels},
            {number: level.begins_at for number, level in levels},
        )

    def _resume(self, resumed: Resumed) -> None:
        if resumed.member != self.member:
            return
        self.boundary = dict(resumed.boundary)
        self.upto = dict(resumed.upto)
        self.numbers = dict(resumed.numbers)
        self.lacking = None
        for number, level in self.levels.items():
            kept = [(first, count) for at, first, count in resumed.kept if at == number]
            retain(level, kept, self.upto.get(number, 0))

    def _put_newer(self, newer: Newer, messages: list[Message], received: Received) -> None:
        if newer.member != self.member:
            received.unsafe = 1
            return
        assert self.upto is not None, "it is on its way"
        assert self.upto.get(newer.level, 0) == newer.start, "nothing is left out"
        queue = self._level(newer.level)
        expiries = newer.expiries or (0,) * len(messages)
        for sequence, message, expires in zip(newer.sequences, messages, expiries, strict=True):
            if put_at(queue, sequence, message, expires, received) == TAKEN:
                received.unsafe -= 1
        queue.next_sequence = newer.end
        self.upto[newer.level] = newer.end
        if newer.is_last:
            self.upto = None
            self.lacking = newer.lacking
        offer_again(queue)
        queue.page_out()

    # What there is to do.

    def _begin(self, instruction: Boundary, received: Received) -> None:
        if instruction.member != self.member:
            return
        self._received = deque([received])  # what is on its way to the disk is not needed there
        self.boundary = dict(instruction.boundary)
        self.upto = None
        self.numbers = dict(instruction.numbers)
        self.lacking = instruction.lacking
        # What is here may be of another life, and may have been said by nobody who still counts.
        # Its numbers may come again, for other messages: so it is another queue that begins.
        for level in self.levels.values():
            level.delete()
        self.levels.clear()
        for number, below in self.boundary.items():
            level = self._level(number)
            level.next_sequence = level.begins_at = below

    def _change(self, changes: Changes, messages: list[Message], received: Received) -> None:
        expiries = changes.expiries or (0,) * len(messages)
        place = 0
        if self.upto is not None:
            received.unsafe = 1  # they come again, when it is their turn
        for level, first, count in changes.published if self.upto is None else ():
            part = slice(place, place + count)
            queue = self._level(level)
            received.unsafe -= put_run(queue, first, messages[part], expiries[part], received)
            offer_again(queue)
            place += count
        for origin, first, count in changes.origins:
            if origin not in self.numbers:
                make_room_for(origin, self.numbers)
            self.numbers[origin] = first + count - 1
        for run in changes.removed:
            self._remove(run)

    def _remove(self, run: RemovedRun) -> None:
        """The master's runs do not straddle a boundary."""
        level, first, count, body_bytes = run
        assert self.boundary is not None
        if first < self.boundary.get(level, 0):
            self._lacks_less(count)
        elif self.upto is None or first < self.upto.get(level, 0):
            remove(self._level(level), first, count, body_bytes)

    def _put_older(self, older: Older, messages: list[Message], received: Received) -> None:
        """They were confirmed long ago, but whoever counts on this copy counts on its disk."""
        assert self.boundary is not None
        if self.boundary.get(older.level, 0) != older.below:
            received.unsafe = 1
            return
        queue = self._level(older.level)
        queue.next_sequence = max(queue.next_sequence, older.below)
        queue.begins_at = min(queue.begins_at, older.boundary)
        expiries = older.expiries or (0,) * len(messages)
        for sequence, message, expires in zip(older.sequences, messages, expiries, strict=True):
            if put_older(queue, sequence, message, expires, received) == TAKEN:
                received.unsafe -= 1
        self.boundary[older.level] = older.boundary
        self._lacks_less(len(messages))
        offer_again(queue)
        queue.page_out()

    def _purge(self, purged: Purged) -> None:
        """What clients of the master have stays, unless it was never here."""
        for level, below in purged.below.items():
            start = 0
            kept = [(first, count) for at, first, count in purged.kept if at == level]
            for end, count in (*kept, (below, 0)):
                remove_span(self._level(level), start, end)
                start = end + count
        self.lacking = count_below(purged.kept, self.boundary or {})

    def _lacks_less(self, count: int) -> None:
        if self.lacking is not None:
            self.lacking = max(self.lacking - count, 0)

    def _level(self, number: int) -> VariableQueue:
        level = self.levels.get(number)
        if level is None:
            level = self.levels[number] = self._make_level(number)
        return level

    def tell_held(self) -> None:
        """Somebody else wants to know."""
        self._on_held(self.held, True)

    def progress(self) -> None:
        """A batch is safe; those after it count when all before are."""
        received = self._received
        held = self.held
        is_awaited = False
        while received and not received[0].unsafe:
            first = received.popleft()
            self.held = first.number
            is_awaited = is_awaited or first.is_awaited
        if self.held != held:
            self._on_held(self.held, is_awaited)
