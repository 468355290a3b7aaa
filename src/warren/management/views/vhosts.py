"""Virtual hosts as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.auth.users import Vhost
from warren.management.json import JsonObject

if TYPE_CHECKING:
    from warren.server.node import Node


def show_vhost(vhost: Vhost, node: Node) -> JsonObject:
    tags = list(vhost.tags)
    metadata: JsonObject = {"description": vhost.description, "tags": tags}
    if vhost.default_queue_type:
        metadata["default_queue_type"] = vhost.default_queue_type
    return {
        "cluster_state": {node.config.name: "running"},
        "default_queue_type": vhost.default_queue_type or "undefined",
        "description": vhost.description,
        "metadata": metadata,
        "name": vhost.name,
        "tags": tags,
        "tracing": vhost.tracing,
    }
