"""Publishing a dead message to its queue's dead-letter exchange.

An internal publish: nobody's permissions, no confirms, not mandatory. If the exchange is not there
the message is gone, as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from warren.model.logs import EventLog
from warren.queues.boundary import AbstractQueue
from warren.queues.dead_letter import Death, DeathReason, dead_letter, split_cycles
from warren.queues.delivery_limit import without_delivery_count
from warren.queues.queue import Queue
from warren.queues.settings import QueueType
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import decode_properties, encode_properties
from warren.wire.route_key import make_route_key, split_route_key

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

_log = EventLog("queue")


class DeadMessage(NamedTuple):
    """A message as its dead-letter exchange gets it, and the queues that it is routed to."""

    message: Message
    queues: list[AbstractQueue]


def publish_dead(vhost: VirtualHost, queue: Queue, message: Message, reason: DeathReason) -> None:
    dead = compose_dead(vhost, queue, message, reason)
    if dead is not None:
        for each in dead.queues:
            each.publish(dead.message, None, 0)


def compose_dead(
    vhost: VirtualHost, queue: Queue, message: Message, reason: DeathReason
) -> DeadMessage | None:
    """None if the queue has no dead-letter exchange, or it is not there."""
    settings = queue.settings
    target = settings.dead_letter_exchange
    if target is None or target not in vhost.exchanges:
        return None
    exchange, routing_key = split_route_key(message.route_key)
    death = Death(reason, queue.record.name, exchange, routing_key, queue.host.clock.wall_seconds())
    properties = decode_properties(message.properties.raw)
    if settings.queue_type is QueueType.QUORUM:
        properties = without_delivery_count(properties)
    dead = dead_letter(properties, death, settings.dead_letter_routing_key)
    headers = dead.properties.headers
    queues = vhost.route(target, dead.routing_keys, headers)
    kept, skipped = split_cycles([q.record.name for q in queues], reason, headers)
    for name in skipped:
        _log.warning(
            "message dropped: dead-letter cycle",
            queue=queue.record.name, vhost=queue.record.vhost, back_to=name,
        )  # fmt: skip
    block = PropertyBlock(encode_properties(dead.properties))
    reborn = Message(make_route_key(target, dead.routing_keys[0]), block, message.body)
    names = frozenset(kept)
    return DeadMessage(reborn, [each for each in queues if each.record.name in names])
