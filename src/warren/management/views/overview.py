"""The node at a glance as JSON: versions, totals, listeners."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from warren import __version__
from warren.cluster.node_states import Listener
from warren.management.json_types import JsonObject
from warren.protocol.capabilities import COMPATIBLE_VERSION, PRODUCT
from warren.server.listening import listeners_of
from warren.server.tls.sides import http_options

if TYPE_CHECKING:
    from warren.server.node import Node

_DESCRIPTIONS: Final = {
    **{
        name: f"AMQP {name} exchange, as per the AMQP specification"
        for name in ("direct", "fanout", "headers", "topic")
    },
    "x-message-deduplication": "Message Deduplication Exchange.",
    "x-super-stream": "Super stream exchange type using murmur3 hashing",
}
EXCHANGE_TYPES: Final = tuple(
    {"name": name, "description": description, "enabled": True}
    for name, description in _DESCRIPTIONS.items()
)
CLUSTER_NAME: Final = "cluster_name"
_RETENTION_S: Final = {
    "global": [600, 3600, 28800, 86400],
    "basic": [600, 3600],
    "detailed": [600],
}


def cluster_name(node: Node) -> str:
    """As it was set, or as the configuration has it, or a node's own if it is alone."""
    name = node.broker.parameters.list_global().get(CLUSTER_NAME)
    if isinstance(name, str):
        return name
    alone = node.config.cluster_name or node.config.name
    return alone if node.cluster is None else node.cluster.links.me.cluster


def show_versions(node: Node) -> JsonObject:
    """What RabbitMQ says of its runtime is said of ours under the same names."""
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "cluster_name": cluster_name(node),
        "disable_stats": False,
        "enable_queue_totals": False,
        "erlang_full_version": f"Warren {__version__} on Python {sys.version.split(' (')[0]}",
        "erlang_version": version,
        "exchange_types": list(EXCHANGE_TYPES),
        "management_version": COMPATIBLE_VERSION,
        "product_name": PRODUCT,
        "product_version": COMPATIBLE_VERSION,
        "rabbitmq_version": COMPATIBLE_VERSION,
        "rates_mode": "basic",
        "release_series_support_status": "supported",
        "sample_retention_policies": _RETENTION_S,
        "statistics_db_event_queue": 0,
        "warren_version": __version__,
    }


def show_listeners(node: Node) -> list[JsonObject]:
    return [_listener(node, listener) for listener in listeners_of(node)]


def show_contexts(node: Node) -> list[JsonObject]:
    return [
        {
            "description": f"{PRODUCT} Management",
            "ip": endpoint.host or "0.0.0.0",
            "node": node.config.name,
            "path": "/",
            "port": str(endpoint.port),
            "ssl_opts": [] if scheme == "http" else _certificate_files(node),
        }
        for scheme, endpoint in node.http_endpoints.items()
    ]


def _certificate_files(node: Node) -> JsonObject:
    options, _ = http_options(node.config)
    return {
        "cacertfile": options.cacertfile,
        "certfile": options.certfile,
        "keyfile": options.keyfile,
    }


def _listener(node: Node, listener: Listener) -> JsonObject:
    return {
        "ip_address": listener.ip_address,
        "node": node.config.name,
        "port": listener.port,
        "protocol": listener.protocol,
        "socket_opts": {"backlog": node.config.tcp_backlog, "nodelay": True},
    }
