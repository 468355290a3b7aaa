"""Failover: what clients hear when the home of a queue is lost."""

from __future__ import annotations

from warren.model.errors import SoftError, not_found
from warren.model.records import QueueRecord
from warren.queues.consumers import Consumer


def wants_cancel_on_failover(consumer: Consumer) -> bool:
    field = consumer.arguments.get("x-cancel-on-ha-failover")
    return field is not None and field.value is True


def master_down(record: QueueRecord, node: str) -> SoftError:
    """`node` is the home that was asked; empty if the queue had none at the moment."""
    name, vhost = record.name, record.vhost
    home = node or record.node
    return not_found(
        f"home node '{home}' of durable queue '{name}' in vhost '{vhost}' is down or inaccessible"
    )
