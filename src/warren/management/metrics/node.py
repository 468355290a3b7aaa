"""Metrics of the node as a whole. What only an Erlang machine has is left out."""

from __future__ import annotations

import gc
import resource
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from warren.broker.activity import AuthAttempts
from warren.broker.parameter_operations import CLUSTER_ID
from warren.management.metrics.exposition import (
    COUNTER,
    GAUGE,
    PREFIX,
    UNTYPED,
    Labelled,
    Metric,
    Pieces,
    head_of,
    labels_of,
    write_each,
)
from warren.management.views.nodes import PROCESSES_MAX
from warren.management.views.overview import cluster_name
from warren.protocol.capabilities import COMPATIBLE_VERSION
from warren.server import machine

if TYPE_CHECKING:
    from warren.server.node import Node

CHURN: Final[tuple[Metric[Node], ...]] = (
    Metric("connections_opened_total", COUNTER, "Total number of connections opened",
           lambda n: n.broker.activity.churn.connection_created),
    Metric("connections_closed_total", COUNTER, "Total number of connections closed or terminated",
           lambda n: n.broker.activity.churn.connection_closed),
    Metric("channels_opened_total", COUNTER, "Total number of channels opened",
           lambda n: n.broker.activity.churn.channel_created),
    Metric("channels_closed_total", COUNTER, "Total number of channels closed",
           lambda n: n.broker.activity.churn.channel_closed),
    Metric("queues_declared_total", COUNTER, "Total number of queues declared",
           lambda n: n.broker.activity.churn.queue_declared),
    Metric("queues_created_total", COUNTER, "Total number of queues created",
           lambda n: n.broker.activity.churn.queue_created),
    Metric("queues_deleted_total", COUNTER, "Total number of queues deleted",
           lambda n: n.broker.activity.churn.queue_deleted),
)  # fmt: skip
NODE_COARSE: Final[tuple[Metric[Node], ...]] = (
    Metric("process_open_fds", GAUGE, "Open file descriptors",
           lambda n: machine.descriptors_used()),
    Metric("process_open_tcp_sockets", GAUGE, "Open TCP sockets", lambda n: len(n.connections)),
    Metric("process_resident_memory_bytes", GAUGE, "Memory used in bytes",
           lambda n: machine.memory_used()),
    Metric("event_loop_long_turns_total", COUNTER, "Turns of the event loop over 100 ms",
           lambda n: n.loop_watchdog.long_turns),
    Metric("event_loop_long_turns_seconds_total", COUNTER, "Time in turns of the loop over 100 ms",
           lambda n: round(n.loop_watchdog.long_turns_s, 3)),
    Metric("disk_space_available_bytes", GAUGE, "Disk space available in bytes",
           lambda n: n.alarms.disk.free_bytes or 0),
    Metric("erlang_processes_used", GAUGE, "Threads used, where RabbitMQ counts Erlang processes",
           lambda n: threading.active_count()),
    Metric("erlang_gc_runs_total", COUNTER, "Total number of garbage collector runs",
           lambda n: sum(generation["collections"] for generation in gc.get_stats())),
    Metric("erlang_scheduler_context_switches_total", COUNTER,
           "Total number of context switches of this process", lambda n: _context_switches()),
)  # fmt: skip
NODE: Final[tuple[Metric[Node], ...]] = (
    Metric("process_max_fds", GAUGE, "Open file descriptors limit",
           lambda n: machine.descriptors_max()),
    Metric("process_max_tcp_sockets", GAUGE, "Open TCP sockets limit",
           lambda n: n.connections.limit),
    Metric("resident_memory_limit_bytes", GAUGE, "Memory high watermark in bytes",
           lambda n: n.alarms.memory.limit_bytes),
    Metric("disk_space_available_limit_bytes", GAUGE, "Free disk space low watermark in bytes",
           lambda n: n.alarms.disk.limit_bytes),
    Metric("erlang_processes_limit", GAUGE, "Erlang processes limit", lambda n: PROCESSES_MAX),
    Metric("erlang_uptime_seconds", GAUGE, "Node uptime",
           lambda n: (n.context.clock.now_ms() - n.started_at_ms) / 1000),
)  # fmt: skip
PERSISTER: Final[tuple[Metric[Node], ...]] = (
    Metric("io_write_ops_total", COUNTER, "Total number of I/O write operations",
           lambda n: n.messages.counts().commits),
    Metric("io_write_bytes_total", COUNTER, "Total number of I/O bytes written",
           lambda n: n.messages.counts().bytes_written),
    Metric("io_sync_ops_total", COUNTER, "Total number of I/O sync operations",
           lambda n: n.messages.counts().commits),
    Metric("msg_store_read_total", COUNTER, "Total number of Message Store read operations",
           lambda n: n.messages.counts().store_reads),
    Metric("msg_store_write_total", COUNTER, "Total number of Message Store write operations",
           lambda n: n.messages.counts().store_writes),
    Metric("queue_index_read_ops_total", COUNTER,
           "Total number of messages read from queue indices",
           lambda n: n.messages.counts().messages_read),
    Metric("queue_index_write_ops_total", COUNTER,
           "Total number of messages written to queue indices",
           lambda n: n.messages.counts().messages_written),
    Metric("queue_index_journal_write_ops_total", COUNTER,
           "Total number of messages written to the journal of queue indices",
           lambda n: n.messages.counts().messages_written),
)  # fmt: skip
# RabbitMQ counts them per queue.
DISK: Final[tuple[Metric[Node], ...]] = (
    Metric("queue_disk_reads_total", COUNTER,
           "Total number of times queues read messages from disk",
           lambda n: n.messages.counts().messages_read),
    Metric("queue_disk_writes_total", COUNTER,
           "Total number of times queues wrote messages to disk",
           lambda n: n.messages.counts().messages_written),
)  # fmt: skip
ALARMS: Final[tuple[Metric[Node], ...]] = (
    Metric("alarms_file_descriptor_limit", GAUGE, "is 1 if file descriptor limit alarm is in "
           "effect", lambda n: 0),
    Metric("alarms_free_disk_space_watermark", GAUGE, "is 1 if free disk space watermark alarm is "
           "in effect", lambda n: int(n.alarms.disk.is_alarmed)),
    Metric("alarms_memory_used_watermark", GAUGE, "is 1 if VM memory watermark alarm is in effect",
           lambda n: int(n.alarms.memory.is_alarmed)),
)  # fmt: skip


def _context_switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def write_identity(node: Node) -> Pieces:
    permanent_id = node.broker.parameters.list_global().get(CLUSTER_ID, "")
    runtime = ".".join(map(str, sys.version_info[:3]))
    yield _info("build_info", "RabbitMQ & Erlang/OTP version info", {
        "rabbitmq_version": COMPATIBLE_VERSION,
        "prometheus_plugin_version": COMPATIBLE_VERSION,
        "prometheus_client_version": COMPATIBLE_VERSION,
        "erlang_version": runtime,
    })  # fmt: skip
    yield _info("identity_info", "RabbitMQ node & cluster identity info", {
        "rabbitmq_node": node.config.name,
        "rabbitmq_cluster": cluster_name(node),
        "rabbitmq_cluster_permanent_id": str(permanent_id),
    })  # fmt: skip


def _info(name: str, meaning: str, labels: Mapping[str, str]) -> str:
    return f"{head_of(PREFIX + name, UNTYPED, meaning)}{PREFIX}{name}{{{labels_of(labels)}}} 1\n"


_ATTEMPTS: Final[tuple[Metric[AuthAttempts], ...]] = (
    Metric("auth_attempts_total", COUNTER, "Total number of authorization attempts",
           lambda a: a.succeeded + a.failed),
    Metric("auth_attempts_succeeded_total", COUNTER,
           "Total number of successful authentication attempts", lambda a: a.succeeded),
    Metric("auth_attempts_failed_total", COUNTER,
           "Total number of failed authentication attempts", lambda a: a.failed),
)  # fmt: skip


def write_attempts(node: Node, prefix: str) -> Pieces:
    attempts = node.broker.activity.attempts
    labels = [labels_of({"protocol": protocol}) for protocol in attempts]
    return write_each(prefix, _ATTEMPTS, Labelled([*attempts.values()], labels))
