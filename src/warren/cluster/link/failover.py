"""Failover: what clients hear when the master of a queue is lost."""

from __future__ import annotations

from collections.abc import Sequence

from warren.model.errors import SoftError, not_found
from warren.model.records import QueueRecord
from warren.queues.consumers import Consumer


def wants_cancel_on_failover(consumer: Consumer) -> bool:
    field = consumer.arguments.get("x-cancel-on-ha-failover")
    return field is not None and field.value is True


def master_down(record: QueueRecord, homes: Sequence[str]) -> SoftError:
    """Return the error for a queue that is down; `homes`: the nodes that have what it needs.

    RabbitMQ's words, which name one node: the queue's master, though a mirror may be as good.
    """
    queue = f"of durable queue '{record.name}' in vhost '{record.vhost}'"
    nodes = ", ".join([f"'{home}'" for home in homes or (record.node,)])
    if len(homes) > 1:
        return not_found(f"home nodes {nodes} {queue} are down or inaccessible")
    return not_found(f"home node {nodes} {queue} is down or inaccessible")
