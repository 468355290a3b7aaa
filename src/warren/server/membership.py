"""This node as a member of its cluster, and the other members: see `cluster/members.py`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from warren.broker.broker import Broker
from warren.cluster.members import (
    Badge,
    Member,
    NoLongerMember,
    NotInCluster,
    StillRunning,
    decode_member,
    encode_member,
    require_membership,
)
from warren.metadata.keys import KeyKind, member_key, node_key, parse_key, prefix
from warren.metadata.store import Change, Check, Delete, Put
from warren.model.logs import EventLog
from warren.model.records import QueueRecord
from warren.model.unreadable import UNREADABLE
from warren.server.cluster_store import ClusterStore
from warren.server.context import ConnectionContext, new_token
from warren.server.data_directory import MEMBER_FILE

_log = EventLog("cluster")


class QueuesOfNodes(Protocol):
    """Queues, as far as forgetting a node concerns them."""

    def is_only_on(self, record: QueueRecord, node: str) -> bool:
        """True if the queue is lost without that node."""
        ...

    async def forget_copies(self, node: str) -> None:
        """Have no mirrored queue count on a copy of that node any more."""
        ...


class Membership:
    """`members` are all there are, this node too once it has enrolled.

    `on_forgotten` is called when this node is removed: its queues are deleted, it has to stop.
    """

    def __init__(
        self,
        context: ConnectionContext,
        store: ClusterStore,
        queues: QueuesOfNodes,
        on_forgotten: Callable[[], None],
    ) -> None:
        self.members: dict[str, Member] = {}
        self._name = context.config.name
        self._badge_file = context.config.data_dir / MEMBER_FILE
        self._badge: Badge | None = None
        self._is_retiring = False
        self._on_forgotten = on_forgotten
        self._queues = queues
        self._context = context
        self._store = store

    @property
    def broker(self) -> Broker:
        return self._context.broker

    async def check(self) -> None:
        """Before anything is touched. Raises NoLongerMember."""
        self._badge = await asyncio.to_thread(_read_badge, self._badge_file)
        records = await self._store.range(prefix(KeyKind.MEMBER))
        self.follow([Change(record.key, record) for record in records])
        self._require()

    async def enrol(self) -> None:
        """The others have let us in. Raises NoLongerMember."""
        self._require()
        key = member_key(self._name)
        while self._name not in self.members:
            member = Member(new_token(), self._context.clock.wall_seconds())
            await self._store.transact([Check(key, 0)], [Put(key, encode_member(member))])
        badge = Badge(self._store.namespace, self._name, self.members[self._name].id)
        if badge != self._badge:
            await asyncio.to_thread(_write_badge, self._badge_file, badge)
            self._badge = badge

    def follow(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = parse_key(change.key)
            if key is None or key.kind is not KeyKind.MEMBER:
                continue
            (node,) = key.parts
            if change.record is None:
                self.members.pop(node, None)
                self._forgotten(node)
            else:
                self.members[node] = decode_member(change.record.value)

    def _forgotten(self, node: str) -> None:
        if node == self._name and not self._is_retiring:
            _log.error("node was removed from the cluster while it was down; stopping")
            self._on_forgotten()

    async def forget(self, node: str) -> int:
        """A node that is not running, for good, with its queues; says how many those were.

        Raises NotInCluster or StillRunning.
        """
        if node not in self.members and not self._has_queues(node):
            raise NotInCluster
        session = node_key(node)
        # First the member: then it cannot come back while its queues are being deleted.
        if not await self._store.transact([Check(session, 0)], [Delete(member_key(node))]):
            raise StillRunning(node)
        await self._queues.forget_copies(node)
        return await self._drop_queues(node)

    async def retire(self) -> int:
        """This node itself, which runs, but has no clients any more."""
        self._is_retiring = True
        count = await self._drop_queues(self._name)
        await self._store.transact([], [Delete(member_key(self._name))])
        return count

    async def _drop_queues(self, node: str) -> int:
        count = 0
        for vhost in tuple(self.broker.vhosts.values()):
            count += await vhost.drop_lost(lambda record: self._queues.is_only_on(record, node))
        _log.warning("node is forgotten", node=node, queues=count)
        return count

    def _has_queues(self, node: str) -> bool:
        vhosts = self.broker.vhosts.values()
        return any(queue.record.node == node for v in vhosts for queue in v.queues.values())

    def _require(self) -> None:
        member = self.members.get(self._name)
        require_membership(self._badge, self._store.namespace, self._name, member)


def _read_badge(path: Path) -> Badge | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Badge)
    except FileNotFoundError:
        return None
    except (OSError, *UNREADABLE) as error:
        raise NoLongerMember(
            f"{path}, which says what cluster this directory belongs to, cannot be read: {error}"
        ) from error


def _write_badge(path: Path, badge: Badge) -> None:
    """All of it or nothing."""
    draft = path.with_name(f"{path.name}.draft")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(badge))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
