"""All settings of a node: each is declared once, as a field of `Config`.

The names, values and defaults are those of RabbitMQ's rabbitmq.conf, so that an existing file
works (`file` reads it); what RabbitMQ has no word for begins with `warren.`. What the
command line alone can say is a field without a key.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from warren.auth.login_guard import FAILURES_MAX_DEFAULT
from warren.config.auth import (
    CLIENT_TLS,
    HTTPS_TO_KEYS,
    INTERNAL_ONLY,
    NO_CACHE,
    NO_HTTP,
    NO_LDAP,
    NO_OAUTH2,
    NO_PAGE_LOGIN,
    BackendChoice,
    CacheBackend,
    ClientTls,
    HttpBackend,
    HttpsToKeys,
    LdapBackend,
    Oauth2Backend,
    PageLogin,
    backend,
    chained,
)
from warren.config.declaring import (
    Setting,
    declared_in,
    deep_group,
    family,
    group,
    in_order,
    secret,
    setting,
    switched_on,
)
from warren.config.log_settings import NO_LOG_SETTINGS, LogSettings
from warren.config.partition_handling import PAUSE_MINORITY, STRATEGIES
from warren.config.tls import (
    COMMON_NAME,
    DISTINGUISHED_NAME,
    NO_HTTPS,
    NO_TLS,
    SUBJECT_ALTERNATIVE_NAME,
    ManagementTls,
    TlsOptions,
)
from warren.config.values import (
    PORT_MAX,
    Endpoint,
    endpoint,
    fraction,
    network,
    one_of,
    size_within,
    switch,
    text,
    whole_number,
)
from warren.flow.memory import PAGING_RATIO_DEFAULT
from warren.flow.units import parse_size
from warren.model.limits import MIRROR_TIMEOUT_MS
from warren.policy.wanted_copies import SYNC_BATCH_DEFAULT
from warren.storage.disk.sizes import DEFAULT_SIZES, StorageSizes

AMQP_PORT: Final = 5672
HTTP_PORT: Final = 15672
CLUSTER_PORT: Final = 25672
FRAME_MAX_LOWEST: Final = 4096
FRAME_MAX_HIGHEST: Final = 16_777_216
MESSAGE_BYTES_MAX: Final = 536_870_912
MIB: Final = 1_048_576
SECRET_CHARS_MIN: Final = 16
"""A node of a cluster does not start with a shorter secret: one of these could be guessed."""

_MILLISECONDS: Final = whole_number(0, 2**31 - 1)
_SHARE: Final = fraction(0.0, 1000.0)


def default_node_name() -> str:
    return f"warren@{socket.gethostname().split('.')[0]}"


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration with which a node starts."""

    name: str = field(default_factory=default_node_name)
    config_files: tuple[Path, ...] = ()
    data_dir: Path = Path("warren-data")
    metadata: str = "sqlite"
    cluster_port: int = CLUSTER_PORT
    cluster_secret: str = field(default="", repr=False)

    tcp_listeners: tuple[Endpoint, ...] = group(
        "listeners.tcp", endpoint, (Endpoint("127.0.0.1", AMQP_PORT),), in_order,
        "where AMQP clients connect: PORT, or ADDRESS:PORT",
    )  # fmt: skip
    ssl_listeners: tuple[Endpoint, ...] = group(
        "listeners.ssl", endpoint, (), in_order, "where AMQP clients connect over TLS, as 5671"
    )
    ssl_options: TlsOptions = field(default=NO_TLS, metadata=family("ssl_options"))
    ssl_handshake_timeout_ms: int = setting(
        "ssl_handshake_timeout", whole_number(1, 2**31 - 1), 5_000,
        "time limit of a TLS handshake, in ms",
    )  # fmt: skip
    cert_login_from: str = setting(
        "ssl_cert_login_from",
        one_of(DISTINGUISHED_NAME, COMMON_NAME, SUBJECT_ALTERNATIVE_NAME),
        DISTINGUISHED_NAME,
        "part of a client's certificate that is its user name, for the SASL mechanism EXTERNAL",
    )
    cert_login_san_type: str = setting(
        "ssl_cert_login_san_type", one_of("dns", "ip", "email", "uri"), "dns",
        "kind of subject alternative name that is the user name, with ssl_cert_login_from = "
        "subject_alternative_name",
    )  # fmt: skip
    cert_login_san_index: int = setting(
        "ssl_cert_login_san_index", whole_number(0, 1_000), 0,
        "index of the alternative name of that kind that is the user name; 0: the first",
    )  # fmt: skip
    tcp_backlog: int = setting(
        "tcp_listen_options.backlog", whole_number(1, 65535), 1024,
        "most connections that wait in the kernel to be accepted",
    )  # fmt: skip
    connection_max: int = setting(
        "connection_max", whole_number(0, 2**31 - 1), 0,
        "most client connections of the node; 0: as many as there are file descriptors",
    )  # fmt: skip
    http_ip: str = setting("management.tcp.ip", text, "127.0.0.1", "address of the HTTP API")
    http_port: int = setting(
        "management.tcp.port", whole_number(0, PORT_MAX), HTTP_PORT, "port of the HTTP API"
    )
    management_tls: ManagementTls = field(default=NO_HTTPS, metadata=family("management.ssl"))
    has_plain_http: bool = True
    http_proxies: tuple[str, ...] = group(
        "warren.http_proxies", network, (), in_order,
        "addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed",
    )  # fmt: skip
    prometheus_ip: str | None = setting(
        "prometheus.tcp.ip",
        text,
        None,
        "address of the port for Prometheus; that of the HTTP API if not set",
    )
    prometheus_port: int | None = setting(
        "prometheus.tcp.port", whole_number(0, PORT_MAX), None,
        "port for Prometheus, such as 15692; without one, /metrics is on the HTTP API's port only",
    )  # fmt: skip
    http_metrics: str = setting(
        "warren.http_metrics", one_of("open", "login", "none"), "open",
        "/metrics on the HTTP API's port: open to everybody, for users with the tag monitoring or "
        "administrator, or not there; prometheus.tcp.port is open in any case",
    )  # fmt: skip
    handshake_timeout_ms: int = setting(
        "handshake_timeout",
        _MILLISECONDS,
        10_000,
        "time limit to negotiate an AMQP connection, in ms",
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
        "memory use that blocks publishers, as a share of all memory; 0.4 if no limit is set",
    )  # fmt: skip
    memory_watermark_bytes: int | None = setting(
        "vm_memory_high_watermark.absolute", parse_size, None,
        "memory use that blocks publishers, in bytes, such as 2GB",
    )  # fmt: skip
    memory_paging_ratio: float = setting(
        "vm_memory_high_watermark_paging_ratio", _SHARE, PAGING_RATIO_DEFAULT,
        "share of the memory limit at which queues begin to move messages to disk; above 1: never",
    )  # fmt: skip
    memory_total_override: int | None = setting(
        "total_memory_available_override_value", parse_size, None,
        "memory of the machine, in bytes, in place of what the operating system says",
    )  # fmt: skip
    disk_free_limit: float | None = setting(
        "disk_free_limit.relative", _SHARE, None,
        "free disk space below which publishers are blocked, as a share of the memory",
    )  # fmt: skip
    disk_free_limit_bytes: int | None = setting(
        "disk_free_limit.absolute", parse_size, None,
        "free disk space below which publishers are blocked, in bytes; 50MB if no limit is set",
    )  # fmt: skip
    embed_messages_below: int = setting(
        "queue_index_embed_msgs_below", size_within(0, MIB), DEFAULT_SIZES.embed_below,
        "messages smaller than this are kept in the queue index, larger ones in the message store",
    )  # fmt: skip
    store_file_bytes: int = setting(
        "msg_store_file_size_limit", size_within(65_536, 256 * MIB), DEFAULT_SIZES.store_file,
        "size at which the message store begins a new file",
    )  # fmt: skip
    journal_file_bytes: int = setting(
        "warren.journal_file_size_limit",
        size_within(65_536, 256 * MIB), DEFAULT_SIZES.journal_file,
        "size at which the journal is copied to the queues' segments and truncated",
    )  # fmt: skip
    auth_mechanisms: tuple[str, ...] = group(
        "auth_mechanisms", one_of("PLAIN", "AMQPLAIN", "EXTERNAL"), ("PLAIN", "AMQPLAIN"), in_order,
        "SASL mechanisms offered, in order",
    )  # fmt: skip
    auth_backends: tuple[BackendChoice, ...] = deep_group(
        "auth_backends", backend, INTERNAL_ONLY, chained,
        "backends that know users, tried in order: internal, http, ldap, oauth2, cache; "
        "N.authn for logins and N.authz for permissions, if these are two",
    )  # fmt: skip
    auth_http: HttpBackend = field(default=NO_HTTP, metadata=family("auth_http"))
    auth_http_tls: ClientTls = field(default=CLIENT_TLS, metadata=family("auth_http.ssl_options"))
    auth_cache: CacheBackend = field(default=NO_CACHE, metadata=family("auth_cache"))
    auth_ldap: LdapBackend = field(default=NO_LDAP, metadata=family("auth_ldap"))
    auth_ldap_tls: ClientTls = field(default=CLIENT_TLS, metadata=family("auth_ldap.ssl_options"))
    auth_oauth2: Oauth2Backend = field(default=NO_OAUTH2, metadata=family("auth_oauth2"))
    auth_oauth2_https: HttpsToKeys = field(
        default=HTTPS_TO_KEYS, metadata=family("auth_oauth2.https")
    )
    page_login: PageLogin = field(default=NO_PAGE_LOGIN, metadata=family("management"))
    login_failures_max: int = setting(
        "warren.login_failures_per_minute", whole_number(0, 1_000_000), FAILURES_MAX_DEFAULT,
        "failed logins per user and address and minute, before further ones must wait; 0: no limit",
    )  # fmt: skip
    loopback_users: tuple[str, ...] = group(
        "loopback_users", switch, ("guest",), switched_on,
        "users that may connect from this machine only",
    )  # fmt: skip
    default_user: str = setting("default_user", text, "guest", "user created at the first start")
    default_pass: str = secret("default_pass", text, "guest", "password of default_user")
    default_vhost: str = setting(
        "default_vhost", text, "/", "virtual host created at the first start"
    )
    default_user_tags: tuple[str, ...] = group(
        "default_user_tags", switch, ("administrator",), switched_on, "tags of default_user"
    )
    default_configure: str = setting(
        "default_permissions.configure",
        str,
        ".*",
        "regular expression of the names that default_user may declare and delete",
    )
    default_write: str = setting(
        "default_permissions.write",
        str,
        ".*",
        "regular expression of the names that default_user may publish to",
    )
    default_read: str = setting(
        "default_permissions.read",
        str,
        ".*",
        "regular expression of the names that default_user may consume from",
    )
    cluster_name: str = setting(
        "cluster_name", text, "", "name of the cluster, sent to clients; the node's name if not set"
    )
    load_definitions: str = setting(
        "load_definitions", text, "", "file of definitions that is imported at every start"
    )
    link_tls: TlsOptions = field(
        default=NO_TLS, metadata=family("warren.cluster_links.ssl_options")
    )
    queue_master_locator: str = setting(
        "queue_master_locator",
        one_of("min-masters", "client-local", "random"),
        "client-local",
        "how the master node of a new queue is chosen in a cluster",
    )
    default_queue_type: str = setting(
        "default_queue_type",
        one_of("classic", "quorum", "stream"),
        "classic",
        "type of queues that are declared without x-queue-type, durable, not exclusive and not "
        "auto-delete, in virtual hosts without a default queue type of their own",
    )
    queue_leader_locator: str = setting(
        "queue_leader_locator",
        one_of("balanced", "client-local", "random", "least-leaders"),
        "client-local",
        "how the leader's node of a new quorum queue or stream is chosen in a cluster",
    )
    sync_batch_size: int = setting(
        "mirroring_sync_batch_size", whole_number(1, 999_999), SYNC_BATCH_DEFAULT,
        "messages per batch when a mirror is synchronised, unless a policy sets ha-sync-batch-size",
    )  # fmt: skip
    sync_max_throughput: str = setting(
        "mirroring_sync_max_throughput", text, "0",
        "most bytes per second when a queue is synchronised, such as 100MB; 0: no limit",
    )  # fmt: skip
    sync_is_blocking: bool = setting(
        "warren.mirroring_sync_blocking", switch, False,
        "true: a queue is blocked while its mirrors are synchronised, as in RabbitMQ",
    )  # fmt: skip
    mirror_timeout_ms: int = setting(
        "warren.mirror_timeout", whole_number(1_000, 3_600_000), MIRROR_TIMEOUT_MS,
        "time without a word from a mirror, in ms, after which its master expels it",
    )  # fmt: skip
    partition_handling: str = setting(
        "cluster_partition_handling", one_of(*STRATEGIES), PAUSE_MINORITY,
        "taken for compatibility: with any value, nodes that cannot reach etcd's majority pause",
    )  # fmt: skip
    metadata_timeout_ms: int = setting(
        "warren.metadata_timeout",
        whole_number(100, 2**31 - 1),
        10_000,
        "time a request waits for the metadata store's majority, in ms, before it fails with 506",
    )
    telemetry_interval_ms: int = setting(
        "warren.telemetry_interval", whole_number(100, 3_600_000), 5_000,
        "interval of the telemetry published to amq.rabbitmq.event, in ms",
    )  # fmt: skip
    boot_wait_ms: int = setting(
        "mnesia_table_loading_retry_timeout", whole_number(1, 2**31 - 1), 30_000,
        "time of one attempt of a starting node to reach the metadata store, in ms",
    )  # fmt: skip
    boot_wait_attempts: int = setting(
        "mnesia_table_loading_retry_limit", whole_number(1, 1_000_000), 10,
        "attempts of a starting node to reach the metadata store before it gives up",
    )  # fmt: skip
    log: LogSettings = field(default=NO_LOG_SETTINGS, metadata=family("log"))

    @property
    def storage_sizes(self) -> StorageSizes:
        return StorageSizes(
            embed_below=self.embed_messages_below,
            store_file=self.store_file_bytes,
            journal_file=self.journal_file_bytes,
        )


def settings() -> dict[str, Setting]:
    """Return every setting of the file by its key."""
    return {setting.key: setting for setting in declared_in(Config)}
