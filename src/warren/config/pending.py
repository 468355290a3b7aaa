"""Keys of rabbitmq.conf that are understood and checked but change nothing yet.

They belong to parts of the broker that are still to come (clustering, files of logs)
or to RabbitMQ's inner life. A configuration that names them is right, so it must load; that
they have no effect must be said, so a log line does.

`$x` stands for any name.
"""

from __future__ import annotations

from typing import Final

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


def _by_file(key: str) -> Reader[object]:
    return _not_here(f"name a PEM file with {key} instead")


def _not_here(remedy: str) -> Reader[object]:
    """Would change who is let in, so that going on without it were worse than not starting."""

    def read(_value: str) -> object:
        raise ValueError(remedy)

    return read


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
    "queue_leader_locator": one_of("balanced", "client-local", "random", "least-leaders"),
    "net_ticktime": _COUNT,
    # TLS: what OpenSSL sees to by itself, and what it cannot be told.
    "ssl_options": one_of("none"),
    "ssl_options.secure_renegotiate": switch,
    "ssl_options.reuse_sessions": switch,
    "ssl_options.honor_ecc_order": switch,
    "ssl_options.log_alert": switch,
    "ssl_options.cert": _by_file("ssl_options.certfile"),
    "ssl_options.cacerts.$name": _by_file("ssl_options.cacertfile"),
    "ssl_options.key.$kind": _by_file("ssl_options.keyfile"),
    "ssl_options.dh": _by_file("ssl_options.dhfile"),
    "ssl_options.psk_identity": _not_here("shared keys are not spoken here"),
    # Listening and sockets beyond what the listener sets by itself.
    "num_acceptors.$kind": _COUNT,
    "tcp_listen_options.$option": text,
    "reverse_dns_lookups": switch,
    "proxy_protocol": switch,
    # Management and metrics.
    "management.$setting": text,
    "prometheus.$setting": text,
    "collect_statistics": one_of("none", "coarse", "fine"),
    "collect_statistics_interval": _COUNT,
    "definitions.$setting": text,
    # Logs elsewhere than on stderr.
    "log.dir": text,
    "log.default.level": _LEVEL,
    "log.mirroring.level": _LEVEL,
    "log.federation.level": _LEVEL,
    "log.upgrade.level": _LEVEL,
    "log.ra.level": _LEVEL,
    "log.console": switch,
    "log.file": text,
    "log.file.level": _LEVEL,
    "log.file.$setting": text,
    "log.syslog": switch,
    "log.syslog.$setting": text,
    "log.exchange": switch,
    "log.exchange.$setting": text,
    # RabbitMQ's inner life.
    "auth_backends.$order": text,
    "password_hashing_module": text,
    "background_gc_enabled": switch,
    "background_gc_target_interval": _COUNT,
    "channel_operation_timeout": _COUNT,
    "credential_validator.$setting": text,
    "raft.$setting": text,
    "distribution_buffer_size": _COUNT,
    "product.$setting": text,
}


def pending_reader(key: str) -> Reader[object] | None:
    """An exact key before a pattern, and the longest pattern before the others."""
    if key in PENDING:
        return PENDING[key]
    parts = key.split(".")
    for length in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:length]) + ".$"
        for pattern, reader in PENDING.items():
            if pattern.startswith(prefix):
                return reader
    return None
