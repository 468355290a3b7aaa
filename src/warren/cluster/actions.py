"""Actions of a cluster's node: everything that `ClusterNode.handle` can ask of the world.

The shell around the machine carries them out in the order in which they are returned, and tells
the outcome as an event where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from warren.cluster.link.control import MirrorNews
from warren.cluster.sessions import Session
from warren.metadata.store import Check, Operation
from warren.model.records import QueueName
from warren.replication.gm.frames import Payload
from warren.replication.group_record import SessionGone


class SendFrame(msgspec.Struct, frozen=True):
    """Send frames of mirrored queues' rings; a link that is down drops them.

    A struct, as it comes with every message, and a frozen dataclass takes longer to make.
    """

    node: str
    buffers: list[Payload]


@dataclass(frozen=True, slots=True)
class TellNode:
    """Send news of a mirrored queue; a link that is down drops them."""

    node: str
    news: MirrorNews


@dataclass(frozen=True, slots=True)
class Commit:
    """Write to the store if all checks hold and none of the sessions exists.

    `CommitAnswered` follows, with False also if the store cannot be reached.
    """

    token: int
    checks: tuple[Check, ...]
    operations: tuple[Operation, ...]
    gone: tuple[SessionGone, ...] = ()


@dataclass(frozen=True, slots=True)
class RevokeSession:
    """End the session of a node whose process is gone, by its lease."""

    session: Session


@dataclass(frozen=True, slots=True)
class SetTimer:
    token: int
    delay_ms: int


@dataclass(frozen=True, slots=True)
class ConnectNode:
    """A node has begun a session: make a link to it, and keep it."""

    session: Session


@dataclass(frozen=True, slots=True)
class DisconnectNode:
    """A node's session has ended: drop the link, and fail what waits for an answer."""

    session: Session


@dataclass(frozen=True, slots=True)
class OwnSessionLost:
    """The store has no session of this incarnation of this node any more."""


@dataclass(frozen=True, slots=True)
class PublishState:
    """Tell all nodes, through the store, whom this node cannot reach: that has changed."""


@dataclass(frozen=True, slots=True)
class PrepareCopy:
    """Wait until the disk has nothing of an earlier queue of this name; `CopyPrepared` follows."""

    name: QueueName
    uid: str


@dataclass(frozen=True, slots=True)
class RenewQueue:
    """Store the record of a transient queue again, with or without the lease of its node.

    `QueueRenewed` follows.
    """

    name: QueueName


@dataclass(frozen=True, slots=True)
class RemoveQueues:
    """Delete transient queues whose last copy is gone."""

    names: frozenset[QueueName]


@dataclass(frozen=True, slots=True)
class Redirect:
    """The queue's master is on this other node: move clients of this node there."""

    name: QueueName
    node: str
    is_mirrored: bool


@dataclass(frozen=True, slots=True)
class AwaitMaster:
    """The queue has no master at the moment, and will have one: let clients wait."""

    name: QueueName


@dataclass(frozen=True, slots=True)
class LoseMaster:
    """The queue has no master and none is to come: tell clients that it is down.

    `homes` are the nodes with a copy that could lead.
    """

    name: QueueName
    homes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Left:
    """All queues that could be handed over have been, after `DrainWanted` or `StopWanted`."""


Action: TypeAlias = (
    SendFrame
    | TellNode
    | Commit
    | RevokeSession
    | SetTimer
    | ConnectNode
    | DisconnectNode
    | OwnSessionLost
    | PublishState
    | PrepareCopy
    | RenewQueue
    | RemoveQueues
    | Redirect
    | AwaitMaster
    | LoseMaster
    | Left
)
