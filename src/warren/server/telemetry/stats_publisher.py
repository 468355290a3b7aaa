"""Tells the figures of queues, connections, channels and the node, once per interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from warren.broker.events import NOBODY, Properties
from warren.flow.states import BLOCKED, FLOW
from warren.queues.queue import Queue
from warren.server.connection import AmqpConnection
from warren.server.telemetry.busyness import LoopUse, Steal, load, processors
from warren.server.telemetry.figures import (
    Place,
    ProcessorUse,
    digest_of_channel,
    digest_of_connection,
    digest_of_queue,
    figures_of_channel,
    figures_of_connection,
    figures_of_node,
    figures_of_queue,
)
from warren.server.telemetry.rounds import Rounds
from warren.server.telemetry.states_publisher import LOOKS_PER_SLICE, StatesPublisher

if TYPE_CHECKING:
    from warren.server.telemetry.observed_node import ObservedNode

NODE_STATS: Final = "warren.node.stats"
QUEUE_STATS: Final = "warren.queue.stats"
CONNECTION_STATS: Final = "warren.connection.stats"
CHANNEL_STATS: Final = "warren.channel.stats"
TOLD_PER_SLICE: Final = 50

Thing = TypeVar("Thing")


@dataclass(slots=True)
class _Kind(Generic[Thing]):
    """`digest` is another one when there is anything new to `describe`."""

    event: str
    list_all: Callable[[], list[Thing]]
    is_there: Callable[[Thing], bool]
    digest: Callable[[Thing], tuple[object, ...]]
    describe: Callable[[Thing], Properties]
    rounds: Rounds[Thing] = field(default_factory=Rounds)


class StatsPublisher:
    def __init__(self, node: ObservedNode, states: StatesPublisher) -> None:
        self._node = node
        self._events = node.broker.events
        self._states = states
        self._loop_use = LoopUse()
        self._steal = Steal()
        self._processor_use = ProcessorUse()
        self._told_at_ms = node.context.clock.now_ms()
        self._queues = self._kind_of_queues()
        self._connections = self._kind_of_connections()
        self._channels = self._kind_of_channels()

    def tell(self) -> Iterator[None]:
        """Do it to the end, and something else between its steps."""
        now_ms = self._node.context.clock.now_ms()
        yield from self._tell_kind(self._queues, now_ms)
        yield from self._tell_kind(self._connections, now_ms)
        yield from self._tell_kind(self._channels, now_ms)
        self._tell(NODE_STATS, lambda: self._figures_of_node(now_ms))

    def _tell_kind(self, kind: _Kind[Thing], now_ms: int) -> Iterator[None]:
        if not self._events.wants(kind.event):
            kind.rounds = Rounds()
            return
        told = 0
        for step, thing in enumerate(kind.rounds.begin(kind.list_all(), now_ms)):
            if kind.is_there(thing) and kind.rounds.is_due(thing, kind.digest(thing)):
                self._tell(kind.event, lambda thing=thing: kind.describe(thing))  # type: ignore[misc]
                told += 1
            if step % LOOKS_PER_SLICE == 0 or told >= TOLD_PER_SLICE:
                told = 0
                yield
        kind.rounds.end()

    def _tell(self, event: str, describe: Callable[[], Properties]) -> None:
        self._events.tell(event, lambda: {"node": self._events.node_name, **describe()}, NOBODY)

    def _figures_of_node(self, now_ms: int) -> Properties:
        states = self._states
        interval_ms, self._told_at_ms = now_ms - self._told_at_ms, now_ms
        kinds = (self._queues, self._connections, self._channels)
        connections = self._node.open_connections()
        ran, waited = self._loop_use.look()
        return {
            "interval_ms": interval_ms,
            "busy_percent": round(100 * min(1.0, ran + waited)),
            "loop_cpu_percent": round(100 * ran),
            "cpu_percent": round(100 * self._processor_use.look()),
            "steal_percent": round(100 * self._steal.look()),
            "load": load(),
            "processors": processors(),
            **figures_of_node(self._node),
            "connections": len(connections),
            "channels": sum([len(connection.channels) for connection in connections]),
            "connections_in_flow": states.connections.count(FLOW),
            "connections_blocked": states.connections.count(BLOCKED),
            "channels_in_flow": states.channels.count(FLOW),
            "queues_in_flow": states.queues.count(FLOW),
            "events_dropped": self._node.broker.event_exchange.dropped,
            "left_out": sum([kind.rounds.left_out for kind in kinds]),
        }

    def _kind_of_queues(self) -> _Kind[Queue]:
        node, state_of = self._node, self._states.queues.state_of
        return _Kind(
            QUEUE_STATS,
            node.statistics.queues,
            lambda queue: not queue.is_deleted,
            lambda queue: digest_of_queue(queue, state_of(queue)),
            lambda queue: figures_of_queue(node, queue, state_of(queue)),
        )

    def _kind_of_connections(self) -> _Kind[AmqpConnection]:
        node, state_of = self._node, self._states.connections.state_of
        return _Kind(
            CONNECTION_STATS,
            node.open_connections,
            lambda connection: connection.is_open,
            lambda connection: digest_of_connection(connection, state_of(connection)),
            lambda connection: figures_of_connection(node, connection, state_of(connection)),
        )

    def _kind_of_channels(self) -> _Kind[Place]:
        node, state_of = self._node, self._states.channels.state_of
        return _Kind(
            CHANNEL_STATS,
            lambda: [
                Place(each, channel)
                for each in node.open_connections()
                for channel in each.channels
            ],
            lambda place: not place.channel.is_closing,
            lambda place: digest_of_channel(place, state_of(place)),
            lambda place: figures_of_channel(node, place, state_of(place)),
        )
