"""What a node lets all others know of itself: what it is short of, where it listens, whether it
takes part, and whom it cannot reach.

It is a key in the store, put with the node's lease, and not news over links, because it has to be
right when links are cut. Two nodes that cannot talk to each other both talk to the store, or they
have no sessions: so an alarm reaches everybody who may take messages, is there for whoever starts
later, and goes with the session of the node that had it. Links would have to tell it again after
every cut, and a node that cannot be reached would be taken for one that is well.
"""

from __future__ import annotations

import msgspec

from warren.model.unreadable import UNREADABLE


class Listener(msgspec.Struct, frozen=True):
    protocol: str
    ip_address: str
    port: int


class NodeState(msgspec.Struct, frozen=True):
    """`alarms` are since when what is short, in seconds of the epoch.

    `unreachable` are nodes with a session that this node has had no link to for a while. A node
    that `is_stopping` takes over no queues: two that stop together would pass them to and fro.
    """

    alarms: dict[str, int] = msgspec.field(default_factory=dict)
    is_drained: bool = False
    listeners: tuple[Listener, ...] = ()
    runtime: str = ""
    unreachable: tuple[str, ...] = ()
    is_stopping: bool = False


def encode_state(state: NodeState) -> bytes:
    return msgspec.json.encode(state)


def decode_state(data: bytes) -> NodeState:
    """Nothing is known of what another version wrote in a way that we cannot read."""
    try:
        return msgspec.json.decode(data, type=NodeState)
    except UNREADABLE:
        return NodeState()
