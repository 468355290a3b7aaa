"""What is told of a node, a queue, a connection or a channel: flat, since each fact is a header."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from warren.broker.events import Properties
from warren.channels.channel import Channel
from warren.queues.queue import Queue
from warren.queues.settings import QueueType
from warren.server import machine
from warren.server.connection import AmqpConnection
from warren.statistics.figures import Figures

if TYPE_CHECKING:
    from warren.server.telemetry.observed_node import ObservedNode

QUEUE_COUNTS: Final = ("publish", "deliver_get", "redeliver", "ack")
COUNTS: Final = (
    "publish", "confirm", "return_unroutable", "drop_unroutable", "deliver_get", "redeliver", "ack",
)  # fmt: skip
_DISK_COUNTS: Final = ("disk_reads", "disk_writes")
_LENGTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
NO_AGE: Final = -1


class Place(NamedTuple):
    """A channel, and whose it is."""

    connection: AmqpConnection
    channel: Channel

    @property
    def identity(self) -> Properties:
        connection, number = self.connection, self.channel.number
        return {
            "name": f"{connection.full_name} ({number})",
            "pid": connection.pid(number),
            "connection": connection.full_name,
            "number": number,
            "vhost": connection.vhost.name,
            "user": connection.user.name,
        }


def identity_of_connection(connection: AmqpConnection) -> Properties:
    return {
        "name": connection.full_name,
        "pid": connection.pid(),
        "vhost": connection.vhost.name,
        "user": connection.user.name,
    }


def identity_of_queue(queue: Queue) -> Properties:
    return {"vhost": queue.record.vhost, "name": queue.record.name}


def figures_of_queue(node: ObservedNode, queue: Queue, state: str) -> Properties:
    kept = queue.backing.figures().named()
    age_ms = queue.head_age_ms(node.context.clock.now_ms())
    lengths = node.statistics.lengths_of_queue(queue)
    return {
        **identity_of_queue(queue),
        "type": queue.settings.queue_type.value,
        "state": state,
        **{name: _count(lengths, name) for name in _LENGTHS},
        "message_bytes": kept["message_bytes"],
        "messages_paged_out": kept["messages_paged_out"],
        "consumers": queue.consumer_count,
        "head_message_age_ms": NO_AGE if age_ms is None else age_ms,
        **_with_rates(node.statistics.of_queue(queue), QUEUE_COUNTS),
    }


def digest_of_queue(queue: Queue, state: str) -> tuple[object, ...]:
    """Another one than before: something has changed."""
    backing = queue.backing
    events = queue.counters.events()
    return events, backing.length, backing.unacked_count, queue.consumer_count, state


def figures_of_connection(node: ObservedNode, connection: AmqpConnection, state: str) -> Properties:
    figures = node.statistics.of_connection(connection)
    return {
        **identity_of_connection(connection),
        "user_provided_name": connection.name or "",
        "state": state,
        "channels": len(connection.channels),
        **_with_rates(figures, ("recv_oct", "send_oct")),
        "send_pend": connection.unsent_bytes,
    }


def digest_of_connection(connection: AmqpConnection, state: str) -> tuple[object, ...]:
    channels = len(connection.channels)
    return connection.reader.octets, connection.output.octets, channels, state


def figures_of_channel(node: ObservedNode, place: Place, state: str) -> Properties:
    channel, confirms = place.channel, place.channel.confirms
    return {
        **place.identity,
        "state": state,
        "consumer_count": len(channel.consumers),
        "prefetch_count": channel.prefetch,
        "messages_unacknowledged": len(channel.deliveries.unacked),
        "messages_unconfirmed": 0 if confirms is None else len(confirms.unconfirmed),
        **_with_rates(node.statistics.of_channel(channel), COUNTS),
    }


def digest_of_channel(place: Place, state: str) -> tuple[object, ...]:
    channel = place.channel
    unacked = len(channel.deliveries.unacked)
    return channel.counters.events(), unacked, len(channel.consumers), state


def figures_of_node(node: ObservedNode) -> Properties:
    memory, disk, statistics = node.alarms.memory, node.alarms.disk, node.statistics
    queues = statistics.queues()
    census = statistics.census(queues)
    streams = [queue for queue in queues if queue.settings.queue_type is QueueType.STREAM]
    resources = sorted(resource.value for resource in node.context.brake.board.resources)
    return {
        "memory_used": machine.memory_used(),
        "memory_limit": memory.limit_bytes,
        "disk_free": disk.free_bytes or 0,
        "disk_free_limit": disk.limit_bytes,
        "alarms": ",".join(resources),
        "queues": census.queues,
        "consumers": census.consumers,
        "messages": census.ready + census.unacked,
        "messages_ready": census.ready,
        "messages_unacknowledged": census.unacked,
        "stream_records": statistics.census(streams).ready if streams else 0,
        "head_message_age_ms": census.head_age_ms,
        **_with_rates(statistics.totals(), (*COUNTS, *_DISK_COUNTS)),
    }


class ProcessorUse:
    """Of all threads together: how many processors were used since the last look."""

    def __init__(self) -> None:
        self._used_ns = time.process_time_ns()
        self._now_ns = time.monotonic_ns()

    def look(self) -> float:
        used_ns, now_ns = time.process_time_ns(), time.monotonic_ns()
        used = (used_ns - self._used_ns) / max(1, now_ns - self._now_ns)
        self._used_ns, self._now_ns = used_ns, now_ns
        return used


def _with_rates(figures: Figures, names: tuple[str, ...]) -> dict[str, int | float]:
    shown: dict[str, int | float] = {}
    for name in names:
        shown[name] = _count(figures, name)
        details = figures.get(f"{name}_details")
        rate = details.get("rate") if isinstance(details, dict) else None
        shown[f"{name}_rate"] = float(rate) if rate is not None else 0.0
    return shown


def _count(figures: Figures, name: str) -> int:
    count = figures.get(name, 0)
    assert isinstance(count, int), "what is counted is whole"
    return count
