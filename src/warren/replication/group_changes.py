"""A mirrored queue as people see it: who has copies, and what has changed.

RabbitMQ tells of mirrors and of those that are synchronised, in the order in which they became so.
Both are in the group's record, and so is every change worth a line in a log: who reads two records
in a row knows what happened between them, whoever did it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from warren.replication.group_record import GroupRecord, Member, node_of


def mirrors_of(record: GroupRecord, present: Collection[Member]) -> list[str]:
    """Nodes with a mirror, the oldest first; `present` are those members that are alive."""
    mirrors = [member for member in present if member.id != record.leader]
    return [member.node for member in sorted(mirrors, key=lambda member: member.joined_view)]


def synchronised_of(record: GroupRecord, present: Collection[Member]) -> list[str]:
    """Nodes with a mirror that lacks nothing, the last one to become so first."""
    nodes = {member.id: member.node for member in present if member.id != record.leader}
    return [nodes[member] for member in reversed(record.insync) if member in nodes]


def recoverable_of(
    record: GroupRecord, present: Collection[Member], running: Collection[str]
) -> list[str]:
    """Nodes with a mirror, and those that do not run and had one when they were last seen."""
    nodes = mirrors_of(record, present)
    shown = {node_of(record.leader), *running, *nodes}
    return nodes + [node for node in record.recoverable if node not in shown]


@dataclass(frozen=True, slots=True)
class Begun:
    """The queue is mirrored from now on."""


@dataclass(frozen=True, slots=True)
class MirrorAdded:
    node: str


@dataclass(frozen=True, slots=True)
class MirrorDropped:
    """It died, left, or was put out."""

    node: str


@dataclass(frozen=True, slots=True)
class Promoted:
    """There is a new leader. Not `is_safe`: it may lack messages that were confirmed."""

    node: str
    before: str
    epoch: int
    is_safe: bool


@dataclass(frozen=True, slots=True)
class InSyncChanged:
    """Who holds all that was confirmed."""

    nodes: tuple[str, ...]


GroupNews: TypeAlias = Begun | MirrorAdded | MirrorDropped | Promoted | InSyncChanged


def news_between(before: GroupRecord | None, after: GroupRecord) -> list[GroupNews]:
    """In the order in which they are best told."""
    if before is None or before.uid != after.uid:
        return _news_of_beginning(after)
    news: list[GroupNews] = []
    had = {member.id: member for member in before.live}
    has = {member.id: member for member in after.live}
    if after.epoch != before.epoch:
        was, now = node_of(before.leader), node_of(after.leader)
        news.append(Promoted(now, was, after.epoch, _is_safe(before, after)))
    elif after.leader in has:
        led = {before.leader, after.leader}
        news += [MirrorDropped(had[m].node) for m in had if m not in has and m not in led]
    news += [MirrorAdded(has[m].node) for m in has if m not in had and m != after.leader]
    if set(before.insync) != set(after.insync):
        news.append(InSyncChanged(tuple(map(node_of, after.insync))))
    return news


def _news_of_beginning(group: GroupRecord) -> list[GroupNews]:
    """A group may begin with its master alone, or with all its copies."""
    news: list[GroupNews] = [Begun()]
    news += [MirrorAdded(m.node) for m in group.live if m.id != group.leader]
    if len(group.insync) > 1:
        news.append(InSyncChanged(tuple(map(node_of, group.insync))))
    return news


def _is_safe(before: GroupRecord, after: GroupRecord) -> bool:
    """Whether the leader was in sync, or began again with the copy of one on its disk that was."""
    if after.leader in before.insync:
        return True
    return before.find(after.leader) is None and node_of(after.leader) in map(
        node_of, before.insync
    )
