"""What clients hear when the home of a queue is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.model.errors import SoftError, not_found
from warren.queues.consumers import Consumer

if TYPE_CHECKING:
    from warren.cluster.remote_queue import RemoteQueue


def wants_cancel_on_failover(consumer: Consumer) -> bool:
    field = consumer.arguments.get("x-cancel-on-ha-failover")
    return field is not None and field.value is True


def home_down(queue: RemoteQueue) -> SoftError:
    name, vhost = queue.record.name, queue.record.vhost
    node = queue.asker.node or queue.record.node
    return not_found(
        f"home node '{node}' of durable queue '{name}' in vhost '{vhost}' is down or inaccessible"
    )
