"""Which nodes there are: a key for each in the store, that lives as long as the node does.

A session says where a node can be reached and which life of it this is (`incarnation`). It is tied
to a lease, so a node that dies, or that cannot reach the store, loses it after a while, and then
everybody knows. Nothing else proves that a node is gone: neither a broken link nor silence.
"""

from __future__ import annotations

from typing import Final

import msgspec

from warren.metadata.store import MetadataError
from warren.model.unreadable import UNREADABLE

# How long a node may be out of touch with the store. Shorter finds dead nodes sooner; longer
# forgives longer pauses of a machine.
SESSION_TTL_S: Final = 6.0
SESSION_KEEP_ALIVE_S: Final = SESSION_TTL_S / 4
# So much before the end of its session a node stops to act: for what lies between looking at the
# clock and the bytes being gone, and for clocks that do not run equally fast.
SESSION_MARGIN_S: Final = 1.0


class Session(msgspec.Struct, frozen=True):
    node: str
    incarnation: str
    lease: int
    cluster_host: str
    cluster_port: int
    amqp_port: int
    http_url: str
    version: str
    links_over_tls: bool = False


class NameTaken(MetadataError):
    """Another living node has this node's name."""


class NotWelcome(MetadataError):
    """A node of the cluster has another secret, or speaks another protocol."""


def encode_session(session: Session) -> bytes:
    return msgspec.json.encode(session)


def decode_session(data: bytes) -> Session | None:
    """None for what another version wrote in a way that we cannot read."""
    try:
        return msgspec.json.decode(data, type=Session)
    except UNREADABLE:
        return None
