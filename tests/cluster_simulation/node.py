"""A node through all its lives: its session, what it knows of the store, and its copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster_simulation.copy_of_node import SimCopy
from cluster_simulation.disk import SavedDisk
from cluster_simulation.store import LEASE_US, SessionNews, Stored
from warren.mirror.group_record import (
    GroupRecord,
    Member,
    SessionGone,
    make_member_id,
    node_of,
)
from warren.mirror.reach import better_placed, blocking_members
from warren.policy.wanted_copies import Copies, MirrorMode, wanted_copies

if TYPE_CHECKING:
    from cluster_simulation.world import World

LEASE_MARGIN_US: Final = 300_000
KEEP_ALIVE_US: Final = 600_000
SUSPECT_US: Final = 500_000
"""A mirror that cannot be reached for so long is put out."""
LOOK_US: Final = 200_000
"""How often a leader looks whether copies are where they should be."""
HOME: Final = "a"


class SimNode:
    """What is on its disk outlives its lives."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.schedule = world.schedule
        self.name = name
        self.sessions: dict[str, str] = {}
        self.stored = Stored()
        self.boots = 0
        """Each has clients of its own; a session that is renewed has not."""
        self.incarnation = ""
        self.is_up = False
        self.has_session = False
        self.is_paused = False
        self.is_cut_from_store = False
        self.is_disk_full = False
        self.copy: SimCopy | None = None
        self.saved: SavedDisk = {}
        self._lives = 0
        self._members = 0
        self._heard = 0
        """How much of the store's history."""
        self._waiting: list[Callable[[], None]] = []
        self._tenure_ends_us = 0
        self._down_since: dict[str, int] = {}

    @property
    def origin(self) -> str:
        return f"{self.name}/{self.boots}"

    # Life.

    def start(self) -> None:
        self.boots += 1
        self.is_up = True
        self.is_paused = False
        self._begin_life()

    def _begin_life(self) -> None:
        self._lives += 1
        life = self.incarnation = f"life{self._lives}"
        self._attempt_session(life)

    def _attempt_session(self, life: str) -> None:
        if not self._is_living(life):
            return
        asked_us = self.schedule.now_us
        store = self.world.store
        if self.is_cut_from_store or not store.open_session(self.name, life):
            self.schedule.after(
                100_000, lambda: self.when_running(lambda: self._attempt_session(life))
            )
            return
        self.has_session = True
        self._tenure_ends_us = asked_us + LEASE_US - LEASE_MARGIN_US
        self._list_store()
        self.world.greet(self.name)
        self._begin_copy()
        self._keep_alive(life)

    def _is_living(self, life: str) -> bool:
        return self.is_up and self.incarnation == life

    def _begin_copy(self) -> None:
        if self.stored.record is None:
            if self.name == HOME:
                self.copy = SimCopy(self)
                self.copy.found()
        elif self._is_recoverable:
            self._take_part()
        else:
            self.saved = {}

    def _take_part(self) -> None:
        saved, self.saved = self.saved, {}
        self.copy = SimCopy(self)
        self.copy.take_part(saved)

    def _keep_alive(self, life: str) -> None:
        """The answer counts from when it was asked for."""
        asked_us = self.schedule.now_us
        store = self.world.store

        def arrive() -> None:
            if not self.is_cut_from_store and self._is_living(life):
                is_alive = store.keep_alive(self.name, life)
                self.schedule.soon(5_000, lambda: self.when_running(lambda: hear(is_alive)))

        def hear(is_alive: bool) -> None:
            if self.is_cut_from_store or not self._is_living(life):
                return
            if is_alive:
                tenure_ends_us = asked_us + LEASE_US - LEASE_MARGIN_US
                self._tenure_ends_us = max(self._tenure_ends_us, tenure_ends_us)
                self.act()
            else:
                self._live_again()

        def again() -> None:
            if self._is_living(life):
                self._keep_alive(life)

        self.schedule.soon(5_000, arrive)
        self.schedule.after(KEEP_ALIVE_US, lambda: self.when_running(again))

    def _live_again(self) -> None:
        """The session was lost while we lived: what we have is that of a former member."""
        if self.copy is not None:
            if self.copy.replica.master is not None:
                self.copy.replica.master.depose()
            self.saved = self.copy.end()
            self.copy = None
        self.has_session = False
        self._begin_life()

    def kill(self) -> None:
        self._go_down()
        # Who had what is only known after a stop in good order.
        for number, written in self.saved.items():
            self.saved[number] = [each._replace(is_redelivered=True) for each in written]

    def stop(self) -> None:
        """Go down in good order: consumers return what they have, the disk notes who had what."""
        if self.copy is not None:
            self.copy.lose_consumers()
        self._go_down()

    def _go_down(self) -> None:
        self.is_up = self.has_session = self.is_paused = False
        if self.copy is not None:
            self.saved = self.copy.end()
            self.copy = None
        self._waiting.clear()
        self._down_since.clear()
        self.world.mourn(self.name)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        waiting, self._waiting = self._waiting, []
        for do in waiting:
            do()
        self.world.store.read(self.name)

    def mend_store(self) -> None:
        self.is_cut_from_store = False
        self.world.store.read(self.name)
        self._tell_unreachable()

    @property
    def may_act(self) -> bool:
        """The lease holds, by the clock here, so nobody else leads what this node leads."""
        return self.is_up and not self.is_paused and self.schedule.now_us < self._tenure_ends_us

    def when_running(self, do: Callable[[], None]) -> None:
        """Now, or when the node goes on; not in another life of its process."""
        boot = self.boots

        def run() -> None:
            if self.is_up and self.boots == boot:
                if self.is_paused:
                    self._waiting.append(run)
                else:
                    do()

        run()

    def act(self) -> None:
        if self.copy is not None:
            self.copy.act()

    # The store.

    def read_store(self, end: int) -> None:
        """News up to there, one after the other; or all there is, if some are not to be had."""
        if not self.is_up or self.is_paused or self.is_cut_from_store or not self.has_session:
            return
        store = self.world.store
        if self._heard < min(store.compacted, end):
            self._list_store()
            self._tell_copy()
        while self._heard < end:
            news = store.history[self._heard]
            self._heard += 1
            self._hear(news)

    def _hear(self, news: Stored | SessionNews) -> None:
        if isinstance(news, Stored):
            self.stored = news
            if not self._is_recoverable:
                self.saved = {}
            self._tell_copy()
        elif news.is_open:
            self.sessions[news.node] = news.incarnation
        else:
            if self.sessions.get(news.node) == news.incarnation:
                del self.sessions[news.node]
            if self.copy is not None:
                self.copy.replica.session_ended(SessionGone(news.node, news.incarnation))

    def _list_store(self) -> None:
        store = self.world.store
        self.stored = Stored(store.value, store.revision)
        self.sessions = dict(store.sessions)
        self._heard = len(store.history)

    def _tell_copy(self) -> None:
        if self.copy is not None:
            self.world.witness.epoch_seen(self.name, self.stored.record)
            copy = self.copy
            copy.replica.record_changed(*self.stored)
            if self.copy is copy:
                copy.tell_ends()

    def forget(self, copy: SimCopy) -> None:
        """It has stopped; what it has is kept as long as the group may need it."""
        if self.copy is copy:
            self.copy = None
            self.saved = copy.disk.saved(copy.dice) if self._is_recoverable else {}

    @property
    def _is_recoverable(self) -> bool:
        record = self.stored.record
        return record is not None and (
            self.name in record.recoverable or self.name in map(node_of, record.insync)
        )

    def new_member(self) -> Member:
        self._members += 1
        member_id = make_member_id(self.name, self.incarnation, self._members)
        return Member(member_id, self.name, self.incarnation)

    # Links.

    def link_changed(self, peer: str, is_up: bool) -> None:
        if is_up:
            if self._down_since.pop(peer, None) is not None:
                self._tell_unreachable()
        elif peer not in self._down_since:
            self._down_since[peer] = self.schedule.now_us
            self._look_for_links_soon(peer)
        if self.copy is not None:
            replica = self.copy.replica
            (replica.link_up if is_up else replica.link_down)(peer)

    def _look_for_links_soon(self, peer: str) -> None:
        self.schedule.after(SUSPECT_US, lambda: self.when_running(lambda: self._suspect(peer)))

    def _suspect(self, peer: str) -> None:
        since = self._down_since.get(peer)
        if since is None or self.schedule.now_us - since < SUSPECT_US:
            return
        self._look_for_links_soon(peer)
        self._tell_unreachable()
        if self.copy is None or self.copy.replica.record is None:
            return
        record, me = self.copy.replica.record, self.copy.replica.me.id
        for member in blocking_members(record, me, peer):
            if self.copy.replica.master is not None:
                self.copy.replica.expel(member)
            else:
                self._tell_leader_of(record, me, member)

    def _tell_unreachable(self) -> None:
        since_us = self.schedule.now_us - SUSPECT_US
        unreachable = {peer for peer, at_us in self._down_since.items() if at_us <= since_us}
        self.world.store.tell_unreachable(self, frozenset(unreachable))

    def move_master(self) -> None:
        """Hand over to a mirror from where more nodes can be served."""
        record = None if self.copy is None else self.copy.replica.record
        if record is None or self.is_cut_from_store or record.leader != self.copy.replica.me.id:
            return
        cuts = {**self.world.store.unreachable, self.name: frozenset(self._down_since)}
        successor = better_placed(record, self.sessions.keys(), cuts)
        if successor is not None:
            is_fixed = self.world.mirroring.mode is not MirrorMode.EXACTLY
            self.copy.replica.hand_over(successor, keeps_copy=is_fixed)

    def _tell_leader_of(self, record: GroupRecord, me: str, suspect: str) -> None:
        def arrive(node: SimNode) -> None:
            if node.copy is not None:
                node.copy.hear_out_of_reach(me, suspect)

        leader = record.find(record.leader)
        if leader is not None:
            self.world.network.send(self.name, leader.node, arrive)

    # Copies where the policy wants them.

    def look_after_copies(self) -> None:
        copy = self.copy
        if copy is None or not self.is_up or self.is_paused or copy.replica.master is None:
            return
        record = copy.replica.record
        if record is None or not record.is_live(copy.replica.me.id):
            return
        self._ask_and_expel(copy, record, self._wanted(record))
        if copy.synchroniser is not None and not copy.has_ended:
            copy.synchroniser.consider(self.world.mirroring.is_sync_automatic)

    def _wanted(self, record: GroupRecord) -> Copies:
        eldest_first = sorted(record.live, key=lambda member: member.joined_view)
        mirrors = [member for member in eldest_first if member.id != record.leader]
        present = Copies(self.name, tuple(member.node for member in mirrors))
        synced = [member.node for member in mirrors if member.id in record.insync]
        running = sorted(self.sessions)
        choose = self.schedule.random.sample
        return wanted_copies(self.world.mirroring, present, synced, running, choose)

    def _ask_and_expel(self, copy: SimCopy, record: GroupRecord, wanted: Copies) -> None:
        present = {member.node: member for member in record.live}
        for node in wanted.mirrors:
            if node not in present and node != self.name:
                self.world.network.send(self.name, node, SimNode.become_mirror)
        for node, member in present.items():
            if node not in (*wanted.mirrors, wanted.master) and member.id != record.leader:
                copy.replica.expel(member.id, is_unwanted=True)
        if wanted.master != self.name:
            is_fixed = self.world.mirroring.mode is not MirrorMode.EXACTLY
            self.hand_over(wanted.master, keeps_copy=is_fixed and self.name in wanted.mirrors)

    def hand_over(self, to: str, keeps_copy: bool) -> None:
        """Have the copy of another node lead, if it lacks nothing."""
        record = None if self.copy is None else self.copy.replica.record
        if self.copy is None or record is None or self.copy.replica.master is None:
            return
        for member in record.live:
            if member.node == to and member.id in record.insync:
                self.copy.replica.hand_over(member.id, keeps_copy=keeps_copy)

    def become_mirror(self) -> None:
        """If this node can: a ring with a cut in it is of no use to anybody."""
        record = self.stored.record
        is_able = self.has_session and not self.is_disk_full
        if self.copy is None and is_able and record is not None:
            alive = {m.node for m in record.live if self.sessions.get(m.node) == m.incarnation}
            if not alive & self._down_since.keys():
                self._take_part()
