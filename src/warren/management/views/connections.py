"""Clients' connections as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.management.arguments import table_to_json
from warren.management.json_types import JsonObject
from warren.server.connection import AmqpConnection
from warren.server.connection_events import tls_facts

if TYPE_CHECKING:
    from warren.server.node import Node


def show_connection_reference(connection: AmqpConnection) -> JsonObject:
    """What others say about the connection they belong to."""
    details = connection.details
    return {
        "name": details.name,
        "peer_host": details.peer.host,
        "peer_port": details.peer.port,
    }


def show_connection(node: Node, connection: AmqpConnection) -> JsonObject:
    details = connection.details
    peer, host = details.peer, details.host
    user = connection.user.name
    return {
        "auth_mechanism": details.mechanism,
        "bottleneck": connection.bottleneck,
        "channel_max": details.limits.channel_max,
        "channels": len(connection.channels),
        "client_properties": table_to_json(details.client_properties),
        "connected_at": details.connected_at_ms,
        "frame_max": details.limits.frame_max,
        "host": host.host,
        "name": details.name,
        "node": node.config.name,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "pid": connection.pid(),
        "port": host.port,
        "protocol": "AMQP 0-9-1",
        "ssl": details.tls is not None,
        "state": connection.state,
        "timeout": details.limits.heartbeat_s,
        "type": "network",
        "user": user,
        "user_provided_name": connection.name or "",
        "user_who_performed_action": user,
        "vhost": connection.vhost.name,
        **{fact: value or None for fact, value in tls_facts(details.tls).items()},
        **node.statistics.of_connection(connection),
    }
