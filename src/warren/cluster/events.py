"""Events of a cluster's node: everything that `ClusterNode.handle` can be told.

Each one is a fact about the world outside the machine: the store, the links, the clock, the disk,
or a wish of an operator. What follows from it is decided in the machine and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from warren.cluster.link.control import MirrorNews
from warren.metadata.store import Change
from warren.model.records import QueueName


@dataclass(frozen=True, slots=True)
class StoreChanged:
    """The store told of changes. The broker has applied those of the topology already."""

    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class SessionPending:
    """This node is about to put a session of this incarnation."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class SessionBegun:
    """The store has the session that this node put last."""


@dataclass(frozen=True, slots=True)
class QueuesLoaded:
    """All queues that the store names exist, and the disk has been read."""


@dataclass(frozen=True, slots=True)
class LinkUp:
    node: str


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The link to a node broke, or could not be made."""

    node: str
    silent_ms: int = 0
    """Time for which the link had brought nothing; 0 if it was closed, or reset."""


@dataclass(frozen=True, slots=True)
class LinkGivenUp:
    """There has been no link to a node with a session for so long that clients stop waiting."""

    node: str


@dataclass(frozen=True, slots=True)
class ProcessGone:
    """A node's port refuses connections where a link was up before: its process has ended."""

    node: str


@dataclass(frozen=True, slots=True)
class FramesArrived:
    """Frames of the rings of mirrored queues, one after the other."""

    body: bytes


@dataclass(frozen=True, slots=True)
class NewsArrived:
    """Another node's message about a mirrored queue that does not go round the ring."""

    news: MirrorNews


@dataclass(frozen=True, slots=True)
class MasterMissing:
    """The node that should be the queue's master answered that it does not have the queue."""

    name: QueueName
    node: str


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """The answer to the action `Commit` with this token."""

    token: int
    is_stored: bool


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time of the action `SetTimer` with this token is up."""

    token: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn of the event loop in which the machine asked to be woken has ended."""


@dataclass(frozen=True, slots=True)
class CopyPrepared:
    """The disk has nothing under this queue's name that is not of this group."""

    name: QueueName
    uid: str


@dataclass(frozen=True, slots=True)
class QueueRenewed:
    """The answer to the action `RenewQueue`."""

    name: QueueName
    is_renewed: bool


@dataclass(frozen=True, slots=True)
class DiskRefused:
    """A virtual host's disk would not take a write, of publishes or of acknowledgements alone."""

    vhost: str


@dataclass(frozen=True, slots=True)
class MemoryRecovered:
    """The memory alarm has ended: paused synchronisations may go on."""


@dataclass(frozen=True, slots=True)
class RelocationWanted:
    """An operator rebalances: another node should be the master of the queue."""

    name: QueueName
    node: str


@dataclass(frozen=True, slots=True)
class DrainWanted:
    """An operator takes this node out of service (or back into it)."""

    is_drained: bool


@dataclass(frozen=True, slots=True)
class StopWanted:
    """This node is about to stop in good order."""


Event: TypeAlias = (
    StoreChanged
    | SessionPending
    | SessionBegun
    | QueuesLoaded
    | LinkUp
    | LinkDown
    | LinkGivenUp
    | ProcessGone
    | FramesArrived
    | NewsArrived
    | MasterMissing
    | CommitAnswered
    | TimerFired
    | TurnEnded
    | CopyPrepared
    | QueueRenewed
    | DiskRefused
    | MemoryRecovered
    | RelocationWanted
    | DrainWanted
    | StopWanted
)
