"""A mirror that comes back keeps what it has, and is sent what it has missed.

RabbitMQ's mirrors begin empty, each time: comparing how much two copies have cannot prove that they
have the same. Numbers can. No two messages of a group ever have the same number, whoever was master
(`instructions`), so what a copy has of this group is the master's message of that number, or one
that the master has no more: acknowledged in the meantime, or said by a master that nobody heard.

    mirror comes back with    1 2 3 4 5 6     7'        7' was said by a master that died
    master has                    3 4 5 6                    8 9 10
    it keeps                      3 4 5 6               1, 2 are gone, 7' has never been
    it is sent                                               8 9 10, 11 ...

So it tells the master the numbers it has (`RetainedMessages`), as runs, and from then on heeds
nothing until it hears what counts of it. The master answers, in order with everything else that it
tells, which of them to keep: those that both have (`Resumed`). Of these numbers it holds from that
moment on exactly what the master has, for it is told what goes. What is newer is sent to it oldest
first, a batch at a time (`CatchUp`); meanwhile it passes over what is published, since that will be
among what it is sent. When there is nothing more to send, the batch that says so is the last one,
and from there on it has everything.

A mirror that was not synchronised lacks the master's oldest messages. It also tells from which
number on its disk has heard of messages at all (`used_from`): that is its boundary again, and what
the master has below is what it lacks, as before.

    mirror comes back with        3 4 5 6      its boundary was 3
    master has                1 2     5 6                    8 9 10
    it keeps                          5 6      and lacks 1, 2: `Older` may bring them

Otherwise a copy is kept as a whole or not at all. The mirror tells below which number it may have
had others; if the master has one of those, from the boundary on, that it has not, it begins empty,
as a new mirror: one that lost transient messages by a restart does, or had removed what the master
before this one was told to and nobody else heard of. Such a message would have to be sent to it
again, under the number of one that its disk has been told to forget, and nothing that follows in a
journal tells the two apart. So does one begin empty that has too many gaps to be told, or falls
behind faster than it catches up.

That what a disk has under a queue's name is of this group, and of no other, the group's record says
(`recoverable`): a node is in there from when it joined, with a disk that had nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from warren.replication.classic.coverage import Coverage
from warren.replication.classic.instructions import Newer, Resumed, Run
from warren.replication.classic.master import MasterBacking
from warren.replication.classic.retained import RetainedMessages
from warren.replication.classic.under_way import NOTHING_HELD
from warren.storage.queue.collecting import Piece
from warren.storage.queue.held_numbers import Runs, common_runs, count_between, held_runs

RUNS_MAX: Final = 1_024
"""Of numbers that a mirror may come back with; one that has more gaps begins empty."""
UNDER_WAY_MAX: Final = 4
"""Batches that the mirror does not hold yet."""
SPARE_MESSAGES: Final = 100_000
"""A mirror that was sent twice what it lacked at first, and so many more, will never catch up."""


class KeptMessages(NamedTuple):
    """Messages that a mirror may keep of those it has, and how many it lacks below, by level."""

    runs: list[Run]
    boundary: dict[int, int]
    lacking: int

    @property
    def message_count(self) -> int:
        return sum(length for _, _, length in self.runs)


NOTHING_KEPT: Final = KeptMessages([], {}, 0)


def common_of(master: Runs, mirror: Runs, used_from: int, used_below: int) -> Runs | None:
    """What both have; None if the mirror has not all that it may have had, and the master has."""
    common = common_runs(master, mirror)
    count = count_between(master, used_from, used_below)
    is_whole = count == sum(length for _, length in common)
    return common if is_whole and len(common) <= RUNS_MAX else None


def begin_with(master: MasterBacking, member: str, remains: RetainedMessages) -> int:
    """A mirror has come with these; says how many of them it keeps."""
    kept = _compare(master, remains)
    count = kept.message_count
    if not count:
        master.begin_member(member)
        return 0
    upto = {level: remains.used_below.get(level, 0) for level in master.next_sequences()}
    numbers = {**master.numbers, master.origin: master.local_number}
    coverage = Coverage(dict(kept.boundary), kept.lacking, dict(upto))
    newer = master.kept_count() - count - kept.lacking
    coverage.catch_up_max = 2 * newer + SPARE_MESSAGES
    coverage.kept_count = count
    resumed = Resumed(member, tuple(kept.runs), upto, numbers, kept.boundary)
    master.resume_member(resumed, coverage)
    return count


def _compare(master: MasterBacking, remains: RetainedMessages) -> KeptMessages:
    """What may be kept, by level; nothing if the mirror has to begin empty."""
    if len(remains.runs) > RUNS_MAX:
        return NOTHING_KEPT
    runs: list[Run] = []
    boundary: dict[int, int] = {}
    lacking = 0
    ends = master.next_sequences()
    for level, queue in master.level_queues().items():
        unacked = [sequence for at, sequence in master.unacked if at == level]
        held = held_runs(queue, unacked)
        mirror = [(first, count) for at, first, count in remains.runs if at == level]
        used_from, used_below = remains.used_from.get(level, 0), remains.used_below.get(level, 0)
        common = common_of(held, mirror, used_from, used_below)
        if common is None or used_below > ends[level]:
            return NOTHING_KEPT
        runs += [(level, *run) for run in common]
        older = count_between(held, 0, used_from)
        if older:
            boundary[level] = used_from
            lacking += older
    return KeptMessages(runs, boundary, lacking)


class CatchUpHost(Protocol):
    """What it takes of the node to bring a mirror up to date."""

    @property
    def is_sync_paused(self) -> bool: ...

    @property
    def is_sync_blocking(self) -> bool:
        """Whether the master is frozen while its mirrors are synchronised."""
        ...

    def call_later(self, delay_ms: int, do: Callable[[], None]) -> None: ...

    def caught_up(self, member: str, kept: int, sent: int) -> None:
        """It has everything from its boundary on, of which so much was sent to it."""
        ...


class CatchUp:
    """Of the mirrors that come back, one after another."""

    def __init__(self, master: MasterBacking, host: CatchUpHost) -> None:
        self._master = master
        self._host = host
        self._is_due = False
        self._is_collecting = False
        self._under_way: deque[int] = deque()
        self._member = ""
        self._sent_count = 0

    @property
    def member(self) -> str | None:
        """The mirror whose turn it is."""
        coverages = self._master.coverages.items()
        return next((member for member, coverage in coverages if coverage.upto is not None), None)

    def wake(self) -> None:
        if not self._is_due and not self._is_collecting and self.member is not None:
            self._is_due = True
            self._host.call_later(0, self._step)

    def _step(self) -> None:
        self._is_due = False
        master, member = self._master, self.member
        if member is None or self._is_collecting or master.is_deposed:
            return
        if member != self._member:
            self._member = member
            self._sent_count = 0
            self._under_way.clear()
        coverage = master.coverages[member]
        if self._sent_count > coverage.catch_up_max:
            master.begin_member(member)
        elif self._may_send(member):
            self._collect(member, coverage)

    def _may_send(self, member: str) -> bool:
        held = self._master.held_by.get(member, NOTHING_HELD)
        while self._under_way and self._under_way[0] <= held:
            self._under_way.popleft()
        has_room = len(self._under_way) < UNDER_WAY_MAX
        is_frozen = self._master.is_frozen and not self._host.is_sync_blocking
        return has_room and not is_frozen and not self._host.is_sync_paused

    def _collect(self, member: str, coverage: Coverage) -> None:
        master, upto = self._master, coverage.upto
        assert upto is not None, "it is on its way"
        ends = master.next_sequences()
        level = next((n for n, end in ends.items() if upto.get(n, 0) < end), min(ends))
        departed = master.departed = set()
        self._is_collecting = True

        def collected(piece: Piece) -> None:
            self._is_collecting = False
            is_current = master.departed is departed and master.coverages.get(member) is coverage
            if is_current and not master.is_deposed:
                self._send(member, coverage, level, piece)
            self.wake()

        unacked = [queued for (at, _), queued in master.unacked.items() if at == level]
        queue = master.level_queues()[level]
        queue.collect_newer(upto.get(level, 0), unacked, collected)

    def _send(self, member: str, coverage: Coverage, level: int, piece: Piece) -> None:
        master = self._master
        master.flush()
        departed, upto = master.departed or set(), coverage.upto
        assert upto is not None, "it is on its way"
        messages = [q for q in piece.messages if (level, q.sequence) not in departed]
        got_to = {**upto, level: piece.below}
        ends = master.next_sequences().items()
        is_last = all(got_to.get(n, 0) >= end for n, end in ends)
        expiries = tuple([queued.expires_at_ms for queued in messages])
        newer = Newer(
            member,
            level,
            piece.start,
            piece.below,
            tuple([queued.sequence for queued in messages]),
            expiries if any(expiries) else (),
            is_last,
            coverage.lacking,
        )
        self._sent_count += len(messages)
        master.tell_newer(newer, [queued.message for queued in messages])
        self._under_way.append(master.number)
        if is_last:
            self._host.caught_up(member, coverage.kept_count, self._sent_count)
