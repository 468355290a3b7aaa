"""What can be configured: each setting is declared once, as a field of `Config`.

The names, values and defaults are those of RabbitMQ's rabbitmq.conf, so that an existing file
works (`config_file` reads it); what RabbitMQ has no word for begins with `warren.`. What the
command line alone can say is a field without a key.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final, TypeVar, cast

from warren.flow.memory import PAGING_RATIO_DEFAULT
from warren.flow.units import parse_size
from warren.server.config_values import (
    PORT_MAX,
    Endpoint,
    Reader,
    endpoint,
    fraction,
    one_of,
    size_within,
    switch,
    text,
    whole_number,
)
from warren.server.logs import LEVELS
from warren.server.partition_handling import PAUSE_MINORITY, STRATEGIES
from warren.storage.sizes import DEFAULT_SIZES, StorageSizes

T = TypeVar("T")
V = TypeVar("V")

AMQP_PORT: Final = 5672
HTTP_PORT: Final = 15672
CLUSTER_PORT: Final = 25672
FRAME_MAX_LOWEST: Final = 4096
FRAME_MAX_HIGHEST: Final = 16_777_216
MESSAGE_BYTES_MAX: Final = 536_870_912
MIB: Final = 1_048_576

_MILLISECONDS: Final = whole_number(0, 2**31 - 1)
_LEVEL: Final = one_of(*LEVELS)
_SHARE: Final = fraction(0.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the file. A group has members `key.NAME`, and `key = none` empties it."""

    key: str
    read: Reader[object]
    meaning: str
    combine: Callable[[dict[str, object]], object] | None = None
    attribute: str = ""
    is_secret: bool = False

    def described(self, attribute: str) -> Setting:
        return replace(self, attribute=attribute)


def setting(key: str, read: Reader[T], default: T, meaning: str) -> T:
    return field(default=default, metadata={"setting": Setting(key, read, meaning)})


def group(
    key: str, read: Reader[V], default: T, combine: Callable[[Mapping[str, V]], T], meaning: str
) -> T:
    declared = Setting(key, read, meaning, cast("Callable[[dict[str, object]], object]", combine))
    return field(default=default, metadata={"setting": declared})


def _switched_on(members: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(name for name, is_on in members.items() if is_on)


def _values(members: Mapping[str, V]) -> tuple[V, ...]:
    return tuple(members.values())


def default_node_name() -> str:
    return f"warren@{socket.gethostname().split('.')[0]}"


@dataclass(frozen=True, slots=True)
class Config:
    """All that a node is told at its start."""

    name: str = field(default_factory=default_node_name)
    data_dir: Path = Path("warren-data")
    metadata: str = "sqlite"
    cluster_port: int = CLUSTER_PORT
    cluster_secret: str = field(default="", repr=False)

    tcp_listeners: tuple[Endpoint, ...] = group(
        "listeners.tcp", endpoint, (Endpoint("127.0.0.1", AMQP_PORT),), _values,
        "where AMQP clients connect: PORT, or ADDRESS:PORT",
    )  # fmt: skip
    tcp_backlog: int = setting(
        "tcp_listen_options.backlog", whole_number(1, 65535), 1024,
        "connections the kernel holds until they are accepted",
    )  # fmt: skip
    connection_max: int = setting(
        "connection_max", whole_number(0, 2**31 - 1), 0,
        "client connections at one time; 0: as many as there are file descriptors",
    )  # fmt: skip
    http_ip: str = setting("management.tcp.ip", text, "127.0.0.1", "address of the HTTP API")
    http_port: int = setting(
        "management.tcp.port", whole_number(0, PORT_MAX), HTTP_PORT, "port of the HTTP API"
    )
    prometheus_ip: str | None = setting(
        "prometheus.tcp.ip", text, None, "address of the port for Prometheus; that of the HTTP API"
    )
    prometheus_port: int | None = setting(
        "prometheus.tcp.port", whole_number(0, PORT_MAX), None,
        "a port of its own for Prometheus, as RabbitMQ's 15692; the HTTP API has /metrics anyway",
    )  # fmt: skip
    handshake_timeout_ms: int = setting(
        "handshake_timeout", _MILLISECONDS, 10_000, "time to negotiate a connection, in ms"
    )
    heartbeat_s: int = setting(
        "heartbeat", whole_number(0, 65535), 60, "heartbeat proposed to clients, in s; 0: none"
    )
    frame_max: int = setting(
        "frame_max", whole_number(FRAME_MAX_LOWEST, FRAME_MAX_HIGHEST), 131_072,
        "largest frame, in bytes",
    )  # fmt: skip
    channel_max: int = setting(
        "channel_max", whole_number(0, 65535), 2047, "channels per connection; 0: all 65535"
    )
    max_message_size: int = setting(
        "max_message_size", whole_number(1, MESSAGE_BYTES_MAX), 134_217_728,
        "largest message body, in bytes",
    )  # fmt: skip
    consumer_timeout_ms: int = setting(
        "consumer_timeout", _MILLISECONDS, 1_800_000,
        "time a consumer has to acknowledge a delivery, in ms; 0: for ever",
    )  # fmt: skip
    channel_tick_interval_ms: int = setting(
        "channel_tick_interval", whole_number(10, 2**31 - 1), 60_000,
        "how often channels look for late acknowledgements, in ms",
    )  # fmt: skip
    memory_watermark: float | None = setting(
        "vm_memory_high_watermark.relative", _SHARE, None,
        "share of the memory beyond which publishers are blocked; 0.4 if nothing is said",
    )  # fmt: skip
    memory_watermark_bytes: int | None = setting(
        "vm_memory_high_watermark.absolute", parse_size, None, "the same, as bytes"
    )
    memory_paging_ratio: float = setting(
        "vm_memory_high_watermark_paging_ratio", fraction(0.0, 1.0), PAGING_RATIO_DEFAULT,
        "share of that at which queues begin to move messages to the disk",
    )  # fmt: skip
    memory_total_override: int | None = setting(
        "total_memory_available_override_value", parse_size, None,
        "bytes of memory to go by instead of what the system says",
    )  # fmt: skip
    disk_free_limit: float | None = setting(
        "disk_free_limit.relative", _SHARE, None,
        "free disk space below which publishers are blocked, as a share of the memory",
    )  # fmt: skip
    disk_free_limit_bytes: int | None = setting(
        "disk_free_limit.absolute", parse_size, None, "the same, as bytes; 50MB if nothing is said"
    )
    embed_messages_below: int = setting(
        "queue_index_embed_msgs_below", size_within(0, MIB), DEFAULT_SIZES.embed_below,
        "messages smaller than this are kept in the queue index, larger ones in the message store",
    )  # fmt: skip
    store_file_bytes: int = setting(
        "msg_store_file_size_limit", size_within(65_536, 256 * MIB), DEFAULT_SIZES.store_file,
        "size at which a file of the message store is followed by another",
    )  # fmt: skip
    journal_file_bytes: int = setting(
        "warren.journal_file_size_limit",
        size_within(65_536, 256 * MIB), DEFAULT_SIZES.journal_file,
        "size at which the journal is copied to the queues' segments and begun anew",
    )  # fmt: skip
    auth_mechanisms: tuple[str, ...] = group(
        "auth_mechanisms", one_of("PLAIN", "AMQPLAIN"), ("PLAIN", "AMQPLAIN"), _values,
        "SASL mechanisms offered, in order",
    )  # fmt: skip
    loopback_users: tuple[str, ...] = group(
        "loopback_users", switch, ("guest",), _switched_on,
        "users who may connect from this machine only",
    )  # fmt: skip
    default_user: str = setting("default_user", text, "guest", "user made at the first start")
    default_pass: str = field(
        default="guest",
        repr=False,
        metadata={"setting": Setting("default_pass", text, "its password", is_secret=True)},
    )
    default_vhost: str = setting("default_vhost", text, "/", "virtual host made at the first start")
    default_user_tags: tuple[str, ...] = group(
        "default_user_tags", switch, ("administrator",), _switched_on, "tags of the first user"
    )
    default_configure: str = setting(
        "default_permissions.configure", str, ".*", "what the first user may declare and delete"
    )
    default_write: str = setting(
        "default_permissions.write", str, ".*", "what the first user may publish to"
    )
    default_read: str = setting(
        "default_permissions.read", str, ".*", "what the first user may consume from"
    )
    cluster_name: str = setting(
        "cluster_name", text, "", "name told to clients; the node's if not set"
    )
    load_definitions: str = setting(
        "load_definitions", text, "", "file of definitions that every start imports"
    )
    queue_master_locator: str = setting(
        "queue_master_locator",
        one_of("min-masters", "client-local", "random"),
        "client-local",
        "which node of a cluster becomes the home of a new queue",
    )
    partition_handling: str = setting(
        "cluster_partition_handling", one_of(*STRATEGIES), PAUSE_MINORITY,
        "what nodes without the majority of etcd do: all values mean that they pause",
    )  # fmt: skip
    log_level: str = setting("log.console.level", _LEVEL, "info", "least level that is logged")
    log_connection_level: str = setting(
        "log.connection.level", _LEVEL, "debug", "the same, for connections coming and going"
    )
    log_channel_level: str = setting(
        "log.channel.level", _LEVEL, "debug", "the same, for errors that close channels"
    )
    log_queue_level: str = setting("log.queue.level", _LEVEL, "debug", "the same, for queues")

    @property
    def storage_sizes(self) -> StorageSizes:
        return StorageSizes(
            embed_below=self.embed_messages_below,
            store_file=self.store_file_bytes,
            journal_file=self.journal_file_bytes,
        )

    @property
    def log_levels(self) -> dict[str, str]:
        """Categories that log less than the rest; a more talkative one does not exist."""
        categories = {
            "connection": self.log_connection_level,
            "channel": self.log_channel_level,
            "queue": self.log_queue_level,
        }
        return {
            name: max(level, self.log_level, key=LEVELS.__getitem__)
            for name, level in categories.items()
        }


def settings() -> dict[str, Setting]:
    """Every setting of the file by its key."""
    declared = ((f.name, f.metadata.get("setting")) for f in fields(Config))
    return {s.key: s.described(name) for name, s in declared if isinstance(s, Setting)}
