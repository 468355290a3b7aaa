"""A node as JSON: what it has, what it may have, and how it is set up."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from warren import __version__
from warren.management.json_types import JsonObject
from warren.management.views.overview import EXCHANGE_TYPES, show_contexts
from warren.protocol.sasl import KNOWN_MECHANISMS
from warren.server import machine
from warren.server.log_outputs import log_locations

if TYPE_CHECKING:
    from warren.server.node import Node

# Plug-ins of RabbitMQ whose work is done by every node.
BUILT_IN: Final = (
    "rabbitmq_auth_mechanism_ssl", "rabbitmq_event_exchange", "rabbitmq_management",
    "rabbitmq_management_agent", "rabbitmq_message_deduplication", "rabbitmq_prometheus",
    "rabbitmq_web_dispatch",
)  # fmt: skip
# Of what RabbitMQ counts and this broker does not have.
_ABSENT: Final = (
    "context_switches", "gc_bytes_reclaimed", "gc_num", "io_reopen_count", "io_seek_count",
    "io_seek_avg_time", "mnesia_disk_tx_count", "mnesia_ram_tx_count",
)  # fmt: skip
_MECHANISM_DESCRIPTIONS: Final = {
    "PLAIN": "SASL PLAIN authentication mechanism",
    "AMQPLAIN": "QPid AMQPLAIN mechanism",
    "EXTERNAL": "SASL EXTERNAL mechanism",
}
# Erlang's default for how many processes there may be.
PROCESSES_MAX: Final = 1_048_576


def show_node(node: Node) -> JsonObject:
    return {**_identity(node), **_limits(node), **_usage(node), **node.statistics.churn()}


def show_node_down(name: str) -> JsonObject:
    return {"cluster_links": [], "name": name, "running": False, "type": "disc"}


def _identity(node: Node) -> JsonObject:
    config = node.config
    enabled = config.auth_mechanisms
    return {
        "applications": [{"description": "Warren", "name": "warren", "version": __version__}],
        "auth_mechanisms": [
            {
                "description": _MECHANISM_DESCRIPTIONS.get(mechanism.name, ""),
                "enabled": mechanism.name in enabled,
                "name": mechanism.name,
            }
            for mechanism in KNOWN_MECHANISMS
        ],
        "being_drained": node.maintenance.is_drained,
        "cluster_links": [],
        "config_files": [str(path.absolute()) for path in config.config_files],
        "contexts": show_contexts(node),
        "db_dir": str(config.data_dir.absolute()),
        "enabled_plugins": list(BUILT_IN),
        "exchange_types": list(EXCHANGE_TYPES),
        "log_files": log_locations(config),
        "name": config.name,
        "net_ticktime": 60,
        "os_pid": str(os.getpid()),
        "partitions": [],
        "processors": os.cpu_count() or 1,
        "rates_mode": "basic",
        "running": True,
        "type": "disc",
        "uptime": node.context.clock.now_ms() - node.started_at_ms,
    }


def _limits(node: Node) -> JsonObject:
    memory, disk = node.alarms.memory, node.alarms.disk
    return {
        "disk_free_alarm": disk.is_alarmed,
        "disk_free_limit": disk.limit_bytes,
        "fd_total": machine.descriptors_max(),
        "mem_alarm": memory.is_alarmed,
        "mem_calculation_strategy": "rss",
        "mem_limit": memory.limit_bytes,
        "proc_total": PROCESSES_MAX,
        "sockets_total": node.connections.limit,
    }


def _usage(node: Node) -> JsonObject:
    """Things that are counted now; how fast they grow is not followed."""
    counts: dict[str, float | None] = {
        "disk_free": node.alarms.disk.free_bytes,
        "fd_used": machine.descriptors_used(),
        "mem_used": machine.memory_used(),
        "proc_used": threading.active_count(),
        "sockets_used": len(node.connections),
        **dict.fromkeys(_ABSENT, 0),
    }
    shown: JsonObject = {"run_queue": 0}
    for name, count in counts.items():
        shown[name] = count
        shown[f"{name}_details"] = {"rate": 0.0}
    return shown


def machine_figures(node: Node) -> dict[str, int]:
    """What is looked at regularly, so that there is a past to show of it."""
    figures, free_bytes = {"mem_used": machine.memory_used()}, node.alarms.disk.free_bytes
    return figures if free_bytes is None else {**figures, "disk_free": free_bytes}


def show_memory(node: Node, queue_bytes: int) -> JsonObject:
    """`queue_bytes` are bodies of messages in memory; the rest is not told apart."""
    used = machine.memory_used()
    return {
        "queue_procs": min(queue_bytes, used),
        "queue_slave_procs": 0,
        "connection_readers": 0,
        "connection_writers": 0,
        "connection_channels": 0,
        "connection_other": 0,
        "mgmt_db": 0,
        "msg_index": 0,
        "other_system": max(0, used - queue_bytes),
        "strategy": "rss",
        "total": {"allocated": used, "erlang": used, "rss": used},
    }
