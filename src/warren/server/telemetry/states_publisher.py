"""Looks at all connections, channels and queues, and tells whose state is another than before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from warren.broker.events import NOBODY, Properties
from warren.flow.states import FLOW, MEMORY_MS, RUNNING
from warren.queues.queue import Queue
from warren.server.connection import AmqpConnection
from warren.server.telemetry.busyness import Busyness
from warren.server.telemetry.figures import Place, identity_of_connection, identity_of_queue
from warren.server.telemetry.states import BUSY_SHARE_MIN, Backlogs, StateWatch, Turn

if TYPE_CHECKING:
    from warren.server.telemetry.observed_node import ObservedNode

QUEUE_STATE: Final = "warren.queue.state"
CONNECTION_STATE: Final = "warren.connection.state"
CHANNEL_STATE: Final = "warren.channel.state"
SYNCING: Final = "syncing"
LOOKS_PER_SLICE: Final = 500


class StatesPublisher:
    def __init__(self, node: ObservedNode) -> None:
        self.connections = StateWatch[AmqpConnection]()
        self.channels = StateWatch[Place]()
        self.queues = StateWatch[Queue]()
        self._node = node
        self._events = node.broker.events
        self._backlogs = Backlogs[AmqpConnection]()
        self._busyness = Busyness()

    def look(self) -> Iterator[None]:
        """Do it to the end, and something else between its steps."""
        now_ms, busy = self._node.context.clock.now_ms(), self._busyness.look()
        connections = self._node.open_connections()
        for start in range(0, len(connections), LOOKS_PER_SLICE):
            for connection in connections[start : start + LOOKS_PER_SLICE]:
                if connection.is_open:
                    self._look_at_connection(connection, now_ms, busy)
            yield
        queues = self._node.statistics.queues()
        for start in range(0, len(queues), LOOKS_PER_SLICE):
            for queue in queues[start : start + LOOKS_PER_SLICE]:
                if not queue.is_deleted:
                    self._look_at_queue(queue, now_ms)
            yield
        for watch in (self.connections, self.channels, self.queues, self._backlogs):
            watch.end()

    def _look_at_connection(self, connection: AmqpConnection, now_ms: int, busy: float) -> None:
        backlog_bytes = connection.backlog_bytes if busy >= BUSY_SHARE_MIN else 0
        is_behind = self._backlogs.is_behind(connection, backlog_bytes, now_ms)
        state = connection.shown_state(MEMORY_MS)
        if state == RUNNING and is_behind:
            state = FLOW
        turn = self.connections.look(connection, state, now_ms)
        if turn is not None:
            self._tell(CONNECTION_STATE, identity_of_connection(connection), turn)
        if connection.was_ever_held:
            self._look_at_channels(connection, now_ms)

    def _look_at_channels(self, connection: AmqpConnection, now_ms: int) -> None:
        for channel in connection.channels:
            place = Place(connection, channel)
            state = connection.channel_state(channel.number, MEMORY_MS)
            turn = self.channels.look(place, state, now_ms)
            if turn is not None:
                self._tell(CHANNEL_STATE, place.identity, turn)

    def _look_at_queue(self, queue: Queue, now_ms: int) -> None:
        state = FLOW if queue.backing.is_in_flow(now_ms, MEMORY_MS) else RUNNING
        if self._is_syncing(queue):
            state = SYNCING
        turn = self.queues.look(queue, state, now_ms)
        if turn is not None:
            self._tell(QUEUE_STATE, identity_of_queue(queue), turn)

    def _is_syncing(self, queue: Queue) -> bool:
        if self._node.cluster is None:
            return False
        sync = self._node.cluster.node.sync_of((queue.record.vhost, queue.record.name))
        return sync is not None and sync.synchroniser.is_syncing

    def _tell(self, name: str, about: Properties, turn: Turn) -> None:
        properties: Properties = {
            "node": self._events.node_name,
            **about,
            "state": turn.state,
            "state_before": turn.before,
            "duration_ms": turn.duration_ms,
        }
        self._events.tell(name, lambda: properties, NOBODY)
