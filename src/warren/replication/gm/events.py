"""What a group member is told, and what it wants done: the two vocabularies of `gm`."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import msgspec

from warren.replication.gm.frames import Frame, Payload
from warren.replication.group_record import GroupRecord, Member, SessionGone


class Timer(Enum):
    FLUSH = "flush"
    ACKS = "acks"
    RETRY = "retry"


class _Word(msgspec.Struct, frozen=True):
    pass


# Events.


class Join(_Word, frozen=True):
    """Become a member. `may_found`: also where there is no group, or all of it is dead.

    A queue's replica founds a group only when it is known to have what the queue had.
    """

    may_found: bool = True
    epoch: int = 1
    """Of its first leader, if it is founded."""


class RecordChanged(_Word, frozen=True):
    """The record as it was read linearizably, None where there is none, and its revision."""

    record: GroupRecord | None
    revision: int


class ProposalAnswered(_Word, frozen=True):
    """Whether a proposal was stored. The record as it is now is told on its own."""

    is_stored: bool


class SessionEnded(_Word, frozen=True):
    """The store says so: this is evidence."""

    gone: SessionGone


class FrameArrived(_Word, frozen=True):
    frame: Frame
    payloads: tuple[Payload, ...] = ()


class FramesLost(_Word, frozen=True):
    """Frames of this stream have come, and were dropped: there was no room to keep them."""

    sender: str
    stream: int


class LinkDown(_Word, frozen=True):
    """What is sent to this node would be lost. Proves nothing about the node."""

    node: str


class LinkUp(_Word, frozen=True):
    """What is sent to this node arrives again.

    To be told whenever something that was sent there may have been lost, also if the link's going
    down was not noticed: it is what makes a member send again.
    """

    node: str


class Broadcast(_Word, frozen=True):
    """`size` is what it counts in windows and buffers. Dropped by one who has not joined yet.

    `is_last`: nothing more is broadcast in this turn, so it goes at once, as if `Idle` followed.
    """

    payload: Payload
    size: int
    is_last: bool = False


class Idle(_Word, frozen=True):
    """Nothing more to do in this turn: what was broadcast in it may go."""


class TimerFired(_Word, frozen=True):
    timer: Timer


class Expel(_Word, frozen=True):
    """Put this member out, dead or not. Only the leader can; others do nothing.

    `is_unwanted`: it is not to come back, its copy is not needed.
    """

    member_id: str
    is_unwanted: bool = False


class Leave(_Word, frozen=True):
    """Have ourselves marked dead and stop; who has asked to join already, joins first.

    `is_spared_only`: if somebody else is in sync. If not, nothing comes of it; ask again.
    """

    is_spared_only: bool = False


Event: TypeAlias = (
    Join
    | RecordChanged
    | ProposalAnswered
    | SessionEnded
    | FrameArrived
    | FramesLost
    | LinkDown
    | LinkUp
    | Broadcast
    | Idle
    | TimerFired
    | Expel
    | Leave
)


# Actions, to be done in the order in which they are given.


class Send(_Word, frozen=True):
    """Frames to one member arrive in order or not at all; lost ones are made known by LinkUp."""

    to: Member
    frame: Frame
    payloads: tuple[Payload, ...] = ()


class Deliver(_Word, frozen=True):
    """A publication for the replica. `number` is 0 for what a member tells itself alone."""

    origin: str
    number: int
    payload: Payload


class MembersChanged(_Word, frozen=True):
    """The members that are known have changed: `births` came, `deaths` were erased.

    The births of a member's first view are all members that it then knows: itself, too, and the
    dead that are not erased yet. Nothing of a member in `deaths` will be delivered any more.
    """

    births: frozenset[str]
    deaths: frozenset[str]


class Propose(_Word, frozen=True):
    """Store this record if the one stored has that revision (None: if there is none).

    The same transaction compares that none of the sessions in `gone` exists.
    """

    record: GroupRecord
    revision: int | None
    gone: tuple[SessionGone, ...] = ()


class ReadRecord(_Word, frozen=True):
    """There is a newer record than the one we know."""


class SetTimer(_Word, frozen=True):
    """Not set again before it has fired."""

    timer: Timer
    delay_ms: int


class Stopped(_Word, frozen=True):
    """The last action of a member."""

    reason: str


Action: TypeAlias = Send | Deliver | MembersChanged | Propose | ReadRecord | SetTimer | Stopped
