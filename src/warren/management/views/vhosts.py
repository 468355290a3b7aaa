"""Virtual hosts as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.auth.users import Vhost
from warren.broker.vhost import VirtualHost
from warren.management.json_types import JsonObject

if TYPE_CHECKING:
    from warren.server.node import Node


def show_vhost(vhost: Vhost, node: Node) -> JsonObject:
    tags = list(vhost.tags)
    metadata: JsonObject = {"description": vhost.description, "tags": tags}
    if vhost.default_queue_type:
        metadata["default_queue_type"] = vhost.default_queue_type
    return {
        "default_queue_type": vhost.default_queue_type or "undefined",
        "description": vhost.description,
        "metadata": metadata,
        "name": vhost.name,
        "tags": tags,
        "tracing": vhost.tracing,
        **show_figures(vhost.name, node),
    }


def show_figures(vhost: str, node: Node) -> JsonObject:
    """What this node adds to what is known of it."""
    shown: JsonObject = {"cluster_state": {node.config.name: "running"}}
    living = node.broker.vhosts.get(vhost)
    if living is not None:
        shown.update(_lengths(living))
        if figures := node.statistics.of_vhost(vhost):
            shown["message_stats"] = figures
    return shown


def _lengths(vhost: VirtualHost) -> JsonObject:
    """How many messages all of its queues have."""
    backings = [queue.backing for queue in vhost.queues_here()]
    ready = sum([backing.length for backing in backings])
    unacked = sum([backing.unacked_count for backing in backings])
    at_rest = {"rate": 0.0}
    return {
        "messages": ready + unacked,
        "messages_details": at_rest,
        "messages_ready": ready,
        "messages_ready_details": at_rest,
        "messages_unacknowledged": unacked,
        "messages_unacknowledged_details": at_rest,
    }
