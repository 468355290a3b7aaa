"""Pending keys of rabbitmq.conf: understood and checked, but they change nothing here.

They belong to parts that Warren does not have (MQTT, syslog, quorum queues' Raft) or to
RabbitMQ's inner life. A configuration that names them is right, so it must load; that they have no
effect must be said, so a log line does.

A key that would change who is let in is another matter: a broker that ignored it would let in
somebody whom the operator has locked out. Those are in `REFUSED`, with the values that ask for
what Warren does anyway; any other value is an error at the start.

`$x` stands for any name.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.config.values import (
    Reader,
    one_of,
    switch,
    text,
    whole_number,
)
from warren.model.logs import LEVELS

_COUNT: Final = whole_number(0, 2**31 - 1)
_LEVEL: Final = one_of(*LEVELS)


class Refusal(NamedTuple):
    """Remedy for a key that is refused, and the values with which it is accepted."""

    remedy: str
    accepted: tuple[str, ...] = ()

    def read(self, value: str) -> object:
        if value not in self.accepted:
            raise ValueError(self.remedy)
        return value


def _by_file(key: str) -> Refusal:
    return Refusal(f"name a PEM file with {key} instead")


REFUSED: Final[dict[str, Refusal]] = {
    "ssl_options.cert": _by_file("ssl_options.certfile"),
    "ssl_options.cacerts.$name": _by_file("ssl_options.cacertfile"),
    "ssl_options.key.$kind": _by_file("ssl_options.keyfile"),
    "ssl_options.dh": _by_file("ssl_options.dhfile"),
    "ssl_options.psk_identity": Refusal("shared keys are not spoken here"),
    "password_hashing_module": Refusal(
        "new passwords are hashed with rabbit_password_hashing_sha256 only; "
        "imported hashes of other modules work without this key",
        ("rabbit_password_hashing_sha256",),
    ),
    "credential_validator.validation_backend": Refusal(
        "new passwords are not validated (rabbit_credential_validator_accept_everything): "
        "remove this key, and check passwords where they are chosen",
        ("rabbit_credential_validator_accept_everything",),
    ),
    "credential_validator.$setting": Refusal("new passwords are not validated: remove this key"),
}


PENDING: Final[dict[str, Reader[object]]] = {
    # Memory and disk: what is measured and how often is not ours to choose.
    "vm_memory_calculation_strategy": one_of("rss", "allocated", "legacy", "erlang"),
    "memory_monitor_interval": _COUNT,
    "disk_monitor_interval": _COUNT,
    # Message storage.
    "queue_index_max_journal_entries": _COUNT,
    "lazy_queue_explicit_gc_run_operation_threshold": _COUNT,
    "classic_queue.default_version": whole_number(1, 2),
    # Cluster and mirrors.
    "cluster_partition_handling.pause_if_all_down.recover": one_of("ignore", "autoheal"),
    "cluster_partition_handling.pause_if_all_down.nodes.$node": text,
    "cluster_keepalive_interval": _COUNT,
    "cluster_formation.$setting": text,
    "mirroring_flow_control": switch,
    "net_ticktime": _COUNT,
    # TLS: what OpenSSL sees to by itself.
    "ssl_options": one_of("none"),
    "ssl_options.secure_renegotiate": switch,
    "ssl_options.reuse_sessions": switch,
    "ssl_options.honor_ecc_order": switch,
    "ssl_options.log_alert": switch,
    # Listening and sockets beyond what the listener sets by itself.
    "num_acceptors.$kind": _COUNT,
    "tcp_listen_options.$option": text,
    "reverse_dns_lookups": switch,
    "proxy_protocol": switch,
    # Auth backends: how they keep and log what they know, which changes nobody's access.
    "auth_cache.cache_module": text,
    "auth_ldap.log": one_of("true", "false", "network", "network_unsafe"),
    "auth_ldap.idle_timeout": text,
    "auth_ldap.anon_auth": one_of("false"),
    # Management and metrics.
    "management.$setting": text,
    "prometheus.$setting": text,
    "collect_statistics": one_of("none", "coarse", "fine"),
    "collect_statistics_interval": _COUNT,
    "definitions.$setting": text,
    # Logs elsewhere than on the console and in a file, and how their lines look.
    "log.default.level": _LEVEL,
    "log.mirroring.level": _LEVEL,
    "log.federation.level": _LEVEL,
    "log.upgrade.level": _LEVEL,
    "log.ra.level": _LEVEL,
    "log.console.formatter.$setting": text,
    "log.file.formatter.$setting": text,
    "log.syslog": switch,
    "log.syslog.$setting": text,
    "log.exchange": switch,
    "log.exchange.$setting": text,
    # RabbitMQ's inner life.
    "background_gc_enabled": switch,
    "background_gc_target_interval": _COUNT,
    "channel_operation_timeout": _COUNT,
    "raft.$setting": text,
    "distribution_buffer_size": _COUNT,
    "product.$setting": text,
    # Other protocols. Their listeners are not opened, so nobody is let in who should not be.
    "mqtt.$setting": text,
    "stomp.$setting": text,
    "stream.$setting": text,
    "web_mqtt.$setting": text,
    "web_stomp.$setting": text,
    "amqp1_0.$setting": text,
    "stomp_ws.$setting": text,
    "management_agent.$setting": text,
    "trust_store.$setting": text,
}


_READERS: Final = PENDING | {key: refusal.read for key, refusal in REFUSED.items()}


def pending_reader(key: str) -> Reader[object] | None:
    """Return the reader of a key: an exact key before a pattern, a longer pattern before others."""
    if key in _READERS:
        return _READERS[key]
    parts = key.split(".")
    for length in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:length]) + ".$"
        for pattern, reader in _READERS.items():
            if pattern.startswith(prefix):
                return reader
    return None
