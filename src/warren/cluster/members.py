"""Which nodes belong to the cluster, running or not: a key for each, there until it is forgotten.

A member has an id, made when it first joined, that its data directory keeps too. So a directory
tells whether it still belongs: to this cluster at all, and to the member that has the name now.
What a forgotten node has on its disk must not come back by itself: its queues were deleted, or
live elsewhere by now.
"""

from __future__ import annotations

import msgspec

from warren.metadata.store import MetadataError


class Member(msgspec.Struct, frozen=True):
    id: str
    since_s: int


class Badge(msgspec.Struct, frozen=True):
    """What a data directory says of the node that it belongs to."""

    cluster: str
    node: str
    id: str


class NoLongerMember(MetadataError):
    """This data directory is of a node that was forgotten, or of another cluster's."""


class NotInCluster(Exception):
    """There is no such node; RabbitMQ's text."""

    def __init__(self) -> None:
        super().__init__("The node selected is not in the cluster.")


class StillRunning(Exception):
    """Only a node that is not there can be forgotten."""


def require_membership(badge: Badge | None, cluster: str, node: str, member: Member | None) -> None:
    """Raises NoLongerMember. A data directory without a badge is a new one, and welcome."""
    if badge is None:
        return
    if badge.cluster != cluster:
        raise NoLongerMember(
            f"the data directory belongs to node {badge.node} of cluster '{badge.cluster}', and "
            f"this is cluster '{cluster}'; choose another directory with --data-dir"
        )
    if member is None:
        raise NoLongerMember(
            f"node {node} is not a member of cluster '{cluster}' any more: it was forgotten, or "
            "this is another cluster of that name. Its data directory is of no use there; to join "
            "anew without what is in it, run 'warren reset --data-dir DIR'"
        )
    if member.id != badge.id:
        raise NoLongerMember(
            f"the data directory is of an earlier node {node} of cluster '{cluster}', which was "
            "forgotten; another one has its name now. Choose that one's directory with --data-dir, "
            "or empty this one with 'warren reset --data-dir DIR'"
        )


def encode_member(member: Member) -> bytes:
    return msgspec.json.encode(member)


def decode_member(data: bytes) -> Member:
    return msgspec.json.decode(data, type=Member)
