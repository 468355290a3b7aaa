"""A store like etcd: one record, sessions with leases, watchers that hear everything late.

News come in order and each for itself, unless the history has been compacted meanwhile: then a
watcher finds what there is now, and has to make out itself what must have happened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from support.record_store import RecordStore
from support.schedule import Schedule
from warren.mirror.group_record import GroupRecord, SessionGone

if TYPE_CHECKING:
    from cluster_simulation.node import SimNode
    from cluster_simulation.witness import Witness

LEASE_US: Final = 2_000_000
REQUEST_US: Final = 300_000
"""How long a request is tried again that nobody answers."""


class Stored(NamedTuple):
    record: GroupRecord | None = None
    revision: int = 0


class SessionNews(NamedTuple):
    node: str
    incarnation: str
    is_open: bool


class ClusterStore(RecordStore[GroupRecord]):
    def __init__(self, schedule: Schedule, witness: Witness) -> None:
        super().__init__(schedule)
        self.schedule = schedule
        self.witness = witness
        self.nodes: dict[str, SimNode] = {}
        self.history: list[Stored | SessionNews] = []
        self.compacted = 0
        """How much of the history is gone."""
        self.unreachable: dict[str, frozenset[str]] = {}
        """By node: the nodes that it has said it cannot reach."""
        self._is_down = False
        self._expiry_us: dict[tuple[str, str], int] = {}

    # Sessions.

    def session_of(self, node: str) -> str:
        return next((life for name, life in self.sessions if name == node), "")

    def open_session(self, node: str, incarnation: str) -> bool:
        if self.session_of(node):
            return False
        self.sessions.add((node, incarnation))
        self.keep_alive(node, incarnation)
        self._note(SessionNews(node, incarnation, True))
        return True

    def keep_alive(self, node: str, incarnation: str) -> bool:
        session = (node, incarnation)
        if session not in self.sessions:
            return False
        self._expiry_us[session] = self.schedule.now_us + LEASE_US
        self.schedule.after(LEASE_US, lambda: self._expire(session))
        return True

    def end_session(self, node: str, incarnation: str) -> None:
        session = (node, incarnation)
        if session in self.sessions:
            self.sessions.discard(session)
            self.unreachable.pop(node, None)
            del self._expiry_us[session]
            self._note(SessionNews(node, incarnation, False))

    def _expire(self, session: tuple[str, str]) -> None:
        is_due = self._expiry_us.get(session, self.schedule.now_us + 1) <= self.schedule.now_us
        if is_due and not self._is_down:
            self.end_session(*session)

    def go_down(self) -> None:
        """Nobody can reach it, and it counts no time."""
        self._is_down = True
        for node in self.nodes.values():
            node.is_cut_from_store = True

    def come_back(self) -> None:
        """Leases begin anew, as etcd's do when a majority is there again."""
        self._is_down = False
        for session in self.sessions:
            self.keep_alive(*session)
        for node in self.nodes.values():
            node.mend_store()

    def tell_unreachable(self, node: SimNode, unreachable: frozenset[str]) -> None:
        """A node's state, for all others to hear of; a node that is cut off says it again."""

        def arrive() -> None:
            if not node.is_cut_from_store and (node.name, node.incarnation) in self.sessions:
                self.unreachable[node.name] = unreachable
                for other in self.nodes.values():
                    self.schedule.soon(5_000, partial(other.when_running, other.move_master))

        self.schedule.soon(self._delay_us_max, arrive)

    # The record.

    def commit(
        self,
        node: SimNode,
        change: tuple[GroupRecord, int | None],
        gone: tuple[SessionGone, ...],
        answered: Callable[[bool], None],
    ) -> None:
        """Asked again until there is an answer, or given up: then it may have been done, or not."""
        record, revision = change
        sessions = tuple((each.node, each.incarnation) for each in gone)
        gives_up_us = self.schedule.now_us + REQUEST_US

        def when_reachable(do: Callable[[], None]) -> None:
            if not node.is_cut_from_store:
                do()
            elif self.schedule.now_us > gives_up_us:
                answered(False)
            else:
                self.schedule.after(20_000, lambda: when_reachable(do))

        def answer(is_stored: bool) -> None:
            when_reachable(lambda: answered(is_stored))

        def arrive() -> None:
            self.compare_and_set(record, revision or None, sessions, answer)

        self.schedule.soon(self._delay_us_max, lambda: when_reachable(arrive))

    def put(self, value: GroupRecord | None) -> None:
        assert value is not None
        self.witness.stored(self.value, value)
        self.value = value
        self.revision += 1
        self._note(Stored(value, self.revision))

    # News.

    def _note(self, news: Stored | SessionNews) -> None:
        self.history.append(news)
        for name in self.nodes:
            self._tell_later(name)

    def compact(self) -> None:
        self.compacted = len(self.history)

    def slow_down(self, delay_us_max: int) -> None:
        self._delay_us_max = delay_us_max

    def _news_for(self, name: str) -> Callable[[], None]:
        node, end = self.nodes[name], len(self.history)
        return lambda: node.read_store(end)
