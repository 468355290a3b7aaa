"""Queues as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.cluster.link.consumer import LinkConsumer
from warren.flow.states import CHANNEL_MEMORY_MS, FLOW, RUNNING
from warren.management.arguments import table_to_json
from warren.management.cluster.masters import sync_of
from warren.management.json_types import JsonObject
from warren.management.views.copies import group_of, last_master_of, show_copies, show_members
from warren.management.views.moments import show_idle_since
from warren.management.views.policies import policy_of_queue
from warren.management.views.redundancy import show_standing
from warren.model.records import QueueRecord
from warren.queues.backing import BackingQueue
from warren.queues.boundary import AbstractQueue
from warren.queues.consumers import Consumer
from warren.queues.queue import Queue
from warren.queues.settings import QueueType, queue_type_of
from warren.wire.properties import decode_properties

if TYPE_CHECKING:
    from warren.server.node import Node

# What a queue and one of its messages take, bodies aside, as measured.
QUEUE_BYTES: Final = 3_000
MESSAGE_BYTES: Final = 200

DOWN: Final = "down"
SYNCING: Final = "syncing"

# Erlang's garbage collector has no counterpart; tools expect the object to be there.
_GARBAGE_COLLECTION: Final = {
    "fullsweep_after": -1,
    "max_heap_size": -1,
    "min_bin_vheap_size": -1,
    "min_heap_size": -1,
    "minor_gcs": -1,
}


def describe_queue(record: QueueRecord) -> JsonObject:
    """What it was declared with."""
    return {
        "arguments": table_to_json(record.arguments),
        "auto_delete": record.auto_delete,
        "durable": record.durable,
        "exclusive": record.exclusive,
        "name": record.name,
        "type": queue_type_of(record.arguments).value,
        "vhost": record.vhost,
    }


def show_queue(queue: Queue, node: Node) -> JsonObject:
    now_ms = node.context.clock.now_ms()
    shown = describe_queue(queue.record)
    shown.update(queue.backing.figures().named())
    shown.update(node.statistics.lengths_of_queue(queue))
    shown.update(policy_of_queue(queue.record, node))
    shown.update(_consumers(queue))
    shown.update(show_copies(queue.record, node))
    shown.update(show_standing(queue.record, node))
    shown.update(
        backing_queue_status=queue.backing.status(now_ms),
        garbage_collection=_GARBAGE_COLLECTION,
        # Ours: RabbitMQ shows a timestamp only if publishers have set one.
        head_message_age_ms=queue.head_age_ms(now_ms),
        head_message_timestamp=_head_timestamp(queue.backing),
        memory=QUEUE_BYTES + shown["messages_ram"] * MESSAGE_BYTES + shown["message_bytes_ram"],
        node=node.config.name,
        reductions=0,
        reductions_details={"rate": 0.0},
        state=FLOW if queue.backing.is_in_flow(now_ms, CHANNEL_MEMORY_MS) else RUNNING,
    )
    sync = sync_of(queue, node)
    if sync is not None and sync.synchroniser.is_syncing:
        shown.update(state=SYNCING, sync_messages=sync.synchroniser.sent_count)
    if queue.settings.queue_type is not QueueType.CLASSIC:
        shown.update(show_members(queue.record, node))
    if figures := node.statistics.of_queue(queue):
        shown["message_stats"] = figures
    show_idle_since(shown, node, queue.counters)
    return shown


def show_any_queue(queue: AbstractQueue, node: Node) -> JsonObject:
    if isinstance(queue, Queue):
        return show_queue(queue, node)
    # At a node that is down, which nobody else can say more of; or mirrored and without leader.
    record = queue.record
    shown = {**describe_queue(record), "node": last_master_of(record, node), "state": DOWN}
    if queue_type_of(record.arguments) is not QueueType.CLASSIC:
        shown.update(show_members(record, node))
    shown.update(show_standing(record, node))
    return shown if group_of(record, node) is None else {**shown, **show_copies(record, node)}


def _head_timestamp(backing: BackingQueue) -> int | None:
    """What its publisher said, if it said anything."""
    head = backing.peek()
    return None if head is None else decode_properties(head.message.properties.raw).timestamp


def _consumers(queue: Queue) -> JsonObject:
    exclusive, active = queue.exclusive_consumer, queue.active_consumer
    # Whether they could take a message at this moment, where RabbitMQ averages over time.
    capacity = 1.0 if queue.rotation.count else 0
    return {
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "consumers": queue.consumer_count,
        "exclusive_consumer_tag": _tag_of(exclusive),
        "single_active_consumer_tag": _tag_of(active),
    }


def _tag_of(consumer: Consumer | None) -> str | None:
    """Its client's name for it, wherever that client is connected."""
    if consumer is None:
        return None
    return consumer.client_tag if isinstance(consumer, LinkConsumer) else consumer.tag
