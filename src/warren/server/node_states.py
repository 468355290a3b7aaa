"""Tells the other nodes this node's state, and keeps theirs: see `cluster/node_states.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from warren.cluster.node_states import NodeState, decode_state, encode_state
from warren.flow.alarms import AlarmBoard, AlarmChange, Resource
from warren.metadata.keys import KeyKind, node_state_key, parse_key
from warren.metadata.store import Change, Lease, LeaseLost, MetadataUnavailable, Put
from warren.model.logs import EventLog
from warren.server.cluster_store import ClusterStore

# The store cannot be had, or our lease has just ended: by then another may have been granted.
RETRY_S: Final = 0.5

_log = EventLog("cluster")


@dataclass(frozen=True, slots=True)
class Own:
    """What this node says of itself, and what it says it with."""

    name: str
    state: Callable[[], NodeState]
    lease: Callable[[], Lease]


class NodeStates:
    """`others` has those that are alive and have spoken."""

    def __init__(self, own: Own, store: ClusterStore, board: AlarmBoard) -> None:
        self.others: dict[str, NodeState] = {}
        self._own = own
        self._store = store
        self._board = board
        self._has_news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        board.listeners.append(self._alarm_changed)

    def start(self) -> None:
        self._has_news.set()
        self._task = asyncio.get_running_loop().create_task(self._tell())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def tell(self) -> None:
        """Something has changed, or the lease is another one."""
        self._has_news.set()

    async def tell_everybody(self) -> None:
        """And wait until all others know. Raises MetadataUnavailable."""
        key, state = node_state_key(self._own.name), encode_state(self._own.state())
        await self._store.transact([], [Put(key, state, self._own.lease())])

    def follow(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = parse_key(change.key)
            if key is None or key.kind is not KeyKind.NODE_STATE:
                continue
            (node,) = key.parts
            if node == self._own.name:
                continue
            if change.record is None:
                self.others.pop(node, None)
                self._board.forget_node(node)
            else:
                self._heard(node, decode_state(change.record.value))

    def _heard(self, node: str, state: NodeState) -> None:
        old = self.others.get(node, NodeState())
        self.others[node] = state
        for resource in Resource:
            if resource.value in state.alarms:
                self._board.set(node, resource, state.alarms[resource.value])
            else:
                self._board.clear(node, resource)
        if state.is_drained != old.is_drained:
            what = "is put into maintenance mode" if state.is_drained else "takes part again"
            _log.info(f"node {what}", node=node)

    def _alarm_changed(self, change: AlarmChange) -> None:
        if change.alarm.node == self._own.name:
            self.tell()

    async def _tell(self) -> None:
        """One at a time: what changes meanwhile goes with the next."""
        key = node_state_key(self._own.name)
        is_said = False
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            state = encode_state(self._own.state())
            try:
                await self._store.tell(Put(key, state, self._own.lease()))
                is_said = False
            except (MetadataUnavailable, LeaseLost) as error:
                if not is_said:
                    _log.warning("the node's state cannot be told", reason=error)
                is_said = True
                self._has_news.set()
                await asyncio.sleep(RETRY_S)
