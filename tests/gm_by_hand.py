"""A group whose every frame is carried by hand, to bring about exactly the moment that is meant."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable

import msgspec

from warren.replication.gm.events import (
    Action,
    Broadcast,
    Deliver,
    Event,
    FrameArrived,
    Idle,
    Join,
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
from warren.replication.gm.frames import Frame, Payload, decode_frames, encode_frame
from warren.replication.gm.member import GroupMember
from warren.replication.group_record import GroupRecord, Member, SessionGone, mark_dead

UID = "queue-1"
ROUNDS_MAX = 1_000


def member(name: str) -> Member:
    return Member(name, f"node-{name}", f"life-{name}")


def gone(name: str) -> SessionGone:
    return SessionGone(f"node-{name}", f"life-{name}")


def out_of_sync(record: GroupRecord, member_id: str) -> GroupRecord:
    """As if the member had never been admitted: a later view without it in the in-sync set."""
    insync = tuple(each for each in record.insync if each != member_id)
    return msgspec.structs.replace(record, view=record.view + 1, insync=insync)


class ByHand:
    """Members by name. Nothing moves unless told to; `settle` moves everything there is."""

    def __init__(self, *names: str) -> None:
        self.members: dict[str, GroupMember] = {}
        self.record: GroupRecord | None = None
        self.revision = 0
        self.links: dict[tuple[str, str], deque[tuple[Frame, tuple[Payload, ...]]]] = defaultdict(
            deque
        )
        self.proposals: deque[tuple[str, Propose]] = deque()
        self.reads: set[str] = set()
        self.timers: set[tuple[str, SetTimer]] = set()
        self.log: dict[str, list[Action]] = defaultdict(list)
        for name in names:
            self.join(name)
            self.settle()
        # Newcomers stand right of the leader, so the ring of abcd is a, d, c, b.
        self.ring = [m.id for m in self.record.live] if self.record is not None else []

    def join(self, name: str) -> None:
        self.members[name] = GroupMember(member(name), UID)
        self.tell(name, RecordChanged(self.record, self.revision))
        self.tell(name, Join())

    def tell(self, name: str, event: Event) -> list[Action]:
        if name not in self.members:
            return []
        actions = self.members[name].handle(event)
        for action in actions:
            match action:
                case Send(to, frame, payloads):
                    self.links[name, to.id].append((frame, payloads))
                case Propose():
                    self.proposals.append((name, action))
                case SetTimer():
                    self.timers.add((name, action))
                case ReadRecord():
                    self.reads.add(name)
                case Deliver() | MembersChanged() | Stopped():
                    self.log[name].append(action)
        return actions

    def broadcast(self, name: str, payload: bytes) -> None:
        self.tell(name, Broadcast(payload, len(payload)))
        self.tell(name, Idle())

    # Moving things.

    def carry(self, source: str, target: str) -> list[Action]:
        """Everything that is under way from one to the other, as bytes."""
        link = self.links[source, target]
        actions: list[Action] = []
        while link:
            for frame, payloads in decode_frames(b"".join(encode_frame(*link.popleft()))):
                actions += self.tell(target, FrameArrived(frame, payloads))
        return actions

    def carry_all(self) -> None:
        for _ in range(ROUNDS_MAX):
            busy = [ends for ends, link in self.links.items() if link]
            if not busy:
                return
            for source, target in busy:
                self.carry(source, target)
        raise AssertionError("frames go round in circles")

    def change(self, transition: Callable[[GroupRecord], GroupRecord], *names: str) -> None:
        """Store another record, and show it to these members, or to all."""
        assert self.record is not None
        self.record = transition(self.record)
        self.revision += 1
        self.show(*names)

    def show(self, *names: str) -> None:
        for name in names or list(self.members):
            self.tell(name, RecordChanged(self.record, self.revision))

    def store_proposals(self) -> None:
        while self.proposals:
            name, proposal = self.proposals.popleft()
            expected = self.revision if self.record is not None else None
            is_stored = proposal.revision == expected
            if is_stored:
                self.record = proposal.record
                self.revision += 1
            self.tell(name, ProposalAnswered(is_stored))
            self.show()

    def settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.carry_all()
            self.store_proposals()
            while self.reads:
                self.show(self.reads.pop())
            timers, self.timers = self.timers, set()
            for name, timer in sorted(timers, key=lambda t: (t[0], t[1].timer.value)):
                self.tell(name, TimerFired(timer.timer))
            if not (timers or self.proposals or any(self.links.values())):
                return
        raise AssertionError("the group does not come to rest")

    def settle_without(self, name: str) -> None:
        """As if this one were out of time for now."""
        held = self.members.pop(name)
        self.settle()
        self.members[name] = held
        self.show(name)

    # Deaths.

    def crash(self, name: str) -> None:
        """Gone, with all that was on its way to it; what it has sent may still arrive."""
        del self.members[name]
        self.links = defaultdict(
            deque, {ends: link for ends, link in self.links.items() if ends[1] != name}
        )

    def bury(self, *names: str) -> None:
        """The store tells that they are gone, and has them marked."""
        for name in names:
            self.change(lambda record, name=name: mark_dead(record, name, gone(name)))

    def tell_end_of(self, name: str) -> None:
        for other in list(self.members):
            self.tell(other, SessionEnded(gone(name)))

    # What came of it.

    def heard(self, name: str, origin: str | None = None) -> list[bytes]:
        return [
            bytes(action.payload)
            for action in self.log[name]
            if isinstance(action, Deliver) and origin in (None, action.origin)
        ]

    def news(self, name: str) -> list[Action]:
        """What it was told besides messages."""
        return [action for action in self.log[name] if not isinstance(action, Deliver)]

    def deaths(self, name: str) -> list[str]:
        changes = [a for a in self.log[name] if isinstance(a, MembersChanged)]
        return sorted(dead for change in changes for dead in change.deaths)

    def settled(self, name: str) -> int:
        """The last of its own publications that it knows everybody to have."""
        return self.members[name]._ring.rounds.own.acked

    def pending(self, name: str) -> dict[str, int]:
        """How many of each origin's publications it holds, where it does."""
        origins = self.members[name]._ring.rounds._origins
        return {i: len(o.pending) for i, o in origins.items() if o.pending}
