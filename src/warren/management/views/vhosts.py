"""Virtual hosts as JSON."""

from __future__ import annotations

from warren.auth.users import Vhost
from warren.management.json import JsonObject


def show_vhost(vhost: Vhost, node_name: str) -> JsonObject:
    tags = sorted(vhost.tags)
    return {
        "cluster_state": {node_name: "running"},
        "default_queue_type": "undefined",
        "description": vhost.description,
        "metadata": {"description": vhost.description, "tags": tags},
        "name": vhost.name,
        "tags": tags,
        "tracing": False,
    }
