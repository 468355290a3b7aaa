"""A group of members in a simulated world, with all that can happen to them.

Each member runs on a node of its own, that has a session in the store. On top of the machine
stands a replica as simple as can be: it notes what it is delivered, promotes itself when it is the
oldest in sync and the leader is gone, and as a leader lets members into the in-sync set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gm_invariants import Journal, Witness
from support.network import Network
from support.record_store import RecordStore
from support.schedule import Schedule
from warren.replication.gm.events import (
    Action,
    Broadcast,
    Deliver,
    Event,
    Expel,
    FrameArrived,
    Idle,
    Join,
    Leave,
    LinkDown,
    LinkUp,
    MembersChanged,
    ProposalAnswered,
    Propose,
    ReadRecord,
    RecordChanged,
    Send,
    SessionEnded,
    SetTimer,
    Stopped,
    TimerFired,
)
from warren.replication.gm.frames import decode_frames, encode_frame
from warren.replication.gm.member import GroupMember
from warren.replication.group_record import (
    GroupRecord,
    Member,
    NotAllowed,
    SessionGone,
    admit_to_insync,
    make_member_id,
    promote,
)

UID = "queue-1"
STEPS_MAX = 60_000

Machine = Callable[[Member, str], GroupMember]


class Peer:
    """A member, its node and its replica."""

    def __init__(self, world: World, node: str, incarnation: int) -> None:
        self.world = world
        member = Member(make_member_id(node, str(incarnation), 1), node, str(incarnation))
        self.id = member.id
        self.node = node
        self.session = SessionGone(node, str(incarnation))
        self.machine = world.machine(member, UID)
        self.journal = Journal(self.id)
        self.is_alive = True
        self.is_paused = False
        self.waiting: list[Event] = []
        self.stop_reason: str | None = None

    @property
    def is_member(self) -> bool:
        return self.is_alive and self.stop_reason is None

    def tell(self, event: Event) -> None:
        if not self.is_alive:
            return
        if self.is_paused:
            self.waiting.append(event)
            return
        if event == SessionEnded(self.session):
            # A node that finds its session gone starts anew, but not on the spot.
            self.world.schedule.soon(30_000, self._end)
            return
        for action in self.machine.handle(event):
            self._do(action)
        self.world.witness.look_at(self)
        if isinstance(event, RecordChanged) and event.record is not None:
            self.world.replica_sees(self, event.record, event.revision)

    def broadcast(self, count: int = 1) -> None:
        for _ in range(count):
            self.tell(Broadcast(self.journal.next_payload(), 100))
        self.world.schedule.soon(1_000, lambda: self.tell(Idle()))

    def broadcast_now(self) -> None:
        """Broadcast one payload without waiting for the turn to end."""
        self.tell(Broadcast(self.journal.next_payload(), 100))
        self.tell(Idle())

    def _end(self) -> None:
        self.is_alive = False

    def _do(self, action: Action) -> None:
        world = self.world
        match action:
            case Send(to, frame, payloads):
                data = b"".join(encode_frame(frame, payloads))
                world.network.send(self.node, to.node, (to.id, data))
            case Deliver():
                self.journal.deliver(action, self.machine.record)
            case MembersChanged(births, deaths):
                self.journal.changed(births, deaths)
            case Propose(record, revision, gone):
                world.propose(self, record, revision, gone)
            case ReadRecord():
                world.store.read(self.id)
            case SetTimer(timer, delay_ms):
                world.schedule.after(delay_ms * 1_000, lambda: self.tell(TimerFired(timer)))
            case Stopped(reason):
                self.stop_reason = reason


class World:
    def __init__(self, seed: int, machine: Machine = GroupMember) -> None:
        self.schedule = Schedule(seed)
        self.random = self.schedule.random
        self.machine = machine
        self.network = Network(self.schedule, self._arrive, self._link_down, self._link_up)
        self.store: RecordStore[GroupRecord] = RecordStore(self.schedule)
        self.peers: dict[str, Peer] = {}
        self.by_node: dict[str, Peer] = {}
        self.witness = Witness(self.peers, lambda: self.store.value)
        self.incarnations = 0
        self.is_admitting = True

    # Members come and go.

    def start(self, node: str) -> Peer:
        """Start a member on a node where none is alive."""
        self.incarnations += 1
        peer = Peer(self, node, self.incarnations)
        self.peers[peer.id] = self.by_node[node] = peer
        self.store.sessions.add((node, peer.session.incarnation))
        self.store.watch(
            peer.id, lambda record, revision: peer.tell(RecordChanged(record, revision))
        )
        for other in self.peers.values():
            if (other.node, other.session.incarnation) not in self.store.sessions:
                self.schedule.soon(3_000, partial(peer.tell, SessionEnded(other.session)))
        peer.tell(Join())
        return peer

    def grow(self, count: int) -> list[Peer]:
        """Members on nodes a, b, c, ..., who join one after the other and settle."""
        peers = []
        for node in "abcdefghij"[:count]:
            peers.append(self.start(node))
            self.settle()
        assert all(p.machine.is_caught_up for p in peers)
        return peers

    def settle(self) -> None:
        self.schedule.run(STEPS_MAX)

    def kill(self, peer: Peer, session_lasts_us: int = 20_000) -> None:
        peer.is_alive = False
        for node in self.by_node:
            if self.random.random() < 0.5:
                self.network.reset(peer.node, node, is_noticed=False)
        self.schedule.soon(session_lasts_us, lambda: self.end_session(peer))

    def end_session(self, peer: Peer) -> None:
        self.store.sessions.discard((peer.node, peer.session.incarnation))
        for other in list(self.peers.values()):
            self.schedule.soon(3_000, partial(other.tell, SessionEnded(peer.session)))

    def pause(self, peer: Peer) -> None:
        peer.is_paused = True

    def resume(self, peer: Peer) -> None:
        if peer.is_paused:
            peer.is_paused = False
            waiting, peer.waiting = peer.waiting, []
            for event in waiting:
                peer.tell(event)

    def leave(self, peer: Peer) -> None:
        peer.tell(Leave())

    # The replicas' part.

    def replica_sees(self, peer: Peer, record: GroupRecord, revision: int) -> None:
        if not peer.is_member or revision != peer.machine.revision or not record.is_live(peer.id):
            return
        try:
            if not record.is_live(record.leader):
                successor = _successor(record)
                if successor == peer.id:
                    wanted = promote(record, peer.id, is_sync_needed=False)
                    self.propose(peer, wanted, revision, ())
            elif record.leader == peer.id and self.is_admitting:
                for member in record.live:
                    if member.id not in record.insync:
                        wanted = admit_to_insync(record, peer.id, member.id)
                        self.propose(peer, wanted, revision, ())
                        break
        except NotAllowed as error:
            raise AssertionError("a replica wants what is not allowed") from error

    def propose(
        self,
        peer: Peer,
        record: GroupRecord,
        revision: int | None,
        gone: tuple[SessionGone, ...],
    ) -> None:
        before_revision = revision

        def answer(is_stored: bool) -> None:
            peer.tell(ProposalAnswered(is_stored))
            if not is_stored and before_revision is not None:
                self.store.read(peer.id)

        self.witness.proposed(peer, record)
        sessions = tuple((g.node, g.incarnation) for g in gone)
        self.store.compare_and_set(record, revision, sessions, answer)

    def expel(self, leader: Peer, victim: Peer) -> None:
        leader.tell(Expel(victim.id))

    # Links.

    def _arrive(self, source: str, target: str, message: object) -> None:
        assert isinstance(message, tuple)
        member_id, data = message
        peer = self.by_node.get(target)
        if peer is not None and peer.id == member_id:
            for frame, payloads in decode_frames(data):
                peer.tell(FrameArrived(frame, payloads))

    def _link_down(self, source: str, target: str) -> None:
        if source in self.by_node:
            self.by_node[source].tell(LinkDown(target))

    def _link_up(self, source: str, target: str) -> None:
        if source in self.by_node:
            self.by_node[source].tell(LinkUp(target))

    @property
    def members(self) -> list[Peer]:
        """Those that live, and know that they are members."""
        return [p for p in self.peers.values() if p.is_member and p.machine.is_caught_up]

    @property
    def leader(self) -> Peer | None:
        record = self.store.value
        return None if record is None else self.peers.get(record.leader)


def _successor(record: GroupRecord) -> str:
    """The oldest in sync, or the oldest at all."""
    synced = [m for m in record.live if m.id in record.insync]
    return min(synced or record.live, key=lambda m: m.joined_view).id
