"""What operators are shown of the work a node does, with RabbitMQ's names.

Every answer is a mapping that can go into JSON as it is: a count under its name, and how fast it
grows under the name with `_details`.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from warren.channels.channel import Channel
from warren.queues.queue import Queue
from warren.wire.codec import FrameReader, OutputBuffer

Figures: TypeAlias = dict[str, object]


class CountedConnection(Protocol):
    """What statistics need to know of a client's connection."""

    reader: FrameReader
    output: OutputBuffer


class Statistics:
    """Of one node."""

    def of_queue(self, queue: Queue) -> Figures:
        """The `message_stats` of a queue; empty until something has happened to it."""
        return {}

    def of_exchange(self, vhost: str, exchange: str) -> Figures:
        return {}

    def of_channel(self, channel: Channel) -> Figures:
        return {}

    def of_connection(self, connection: CountedConnection) -> Figures:
        """Traffic: `recv_oct`, `send_oct` ... with their details."""
        return _with_rates(
            {
                "recv_oct": connection.reader.octets,
                "send_oct": connection.output.octets,
                "recv_cnt": connection.reader.frames,
            }
        ) | {"send_cnt": 0, "send_pend": 0}

    def of_vhost(self, vhost: str) -> Figures:
        """The `message_stats` of all that happened in a virtual host."""
        return {}

    def totals(self) -> Figures:
        """The `message_stats` of the node."""
        return {}

    def queue_totals(self) -> Figures:
        return _with_rates({"messages": 0, "messages_ready": 0, "messages_unacknowledged": 0})

    def churn(self) -> Figures:
        """The `churn_rates`: how many connections, channels and queues came and went."""
        return _with_rates(
            {
                "channel_closed": 0,
                "channel_created": 0,
                "connection_closed": 0,
                "connection_created": 0,
                "queue_created": 0,
                "queue_declared": 0,
                "queue_deleted": 0,
            }
        )


def _with_rates(counts: dict[str, int]) -> Figures:
    figures: Figures = {}
    for name, count in counts.items():
        figures[name] = count
        figures[name + "_details"] = {"rate": 0.0}
    return figures
