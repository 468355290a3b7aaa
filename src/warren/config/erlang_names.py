"""Names of applications and keys in Erlang configuration files that change nothing here."""

from __future__ import annotations

from typing import Final

RABBIT: Final = "rabbit"

UNUSED_KEYS: Final = frozenset({
    "autocluster", "autoheal_state_transition_timeout", "backing_queue_module", "cluster_formation",
    "cluster_nodes", "config_entry_decoder", "credentials_obfuscation_fallback_secret",
    "credit_flow_default_credit", "dead_letter_worker_consumer_prefetch",
    "dead_letter_worker_publisher_confirm_timeout", "default_consumer_prefetch", "definitions",
    "delegate_count", "default_worker_pool_size", "disk_monitor_failure_retries",
    "disk_monitor_failure_retry_interval", "error_logger", "fhc_read_buffering",
    "fhc_write_buffering", "halt_on_upgrade_failure", "hipe_compile", "hipe_modules",
    "initial_frame_max", "msg_store_credit_disc_bound",
    "msg_store_index_module", "msg_store_io_batch_size", "msg_store_shutdown_timeout",
    "plugins_dir", "plugins_expand_dir", "queue_explicit_gc_run_operation_threshold",
    "quorum_cluster_size", "quorum_commands_soft_limit", "quorum_compute_checksums",
    "release_series_eol_date", "sasl_error_logger", "server_properties", "ssl_allow_poodle_attack",
    "ssl_apps", "stream_messages_soft_limit", "trace_vhosts", "track_auth_attempt_source",
    "tracking_execution_timeout", "vhost_restart_strategy", "writer_gc_threshold",
})  # fmt: skip
"""Keys of `rabbit` that only Erlang files have, and that change nothing here."""

APPLICATIONS: Final = (
    RABBIT, "amqp10_client", "amqp_client", "aten", "cowboy", "credentials_obfuscation", "kernel",
    "lager", "mnesia", "os_mon", "osiris", "prometheus", "ra", "rabbit_common", "rabbitmq_amqp1_0",
    "rabbitmq_auth_backend_cache", "rabbitmq_auth_backend_http", "rabbitmq_auth_backend_ldap",
    "rabbitmq_auth_backend_oauth2", "rabbitmq_auth_mechanism_ssl", "rabbitmq_aws",
    "rabbitmq_consistent_hash_exchange", "rabbitmq_delayed_message_exchange",
    "rabbitmq_event_exchange", "rabbitmq_federation", "rabbitmq_federation_management",
    "rabbitmq_management", "rabbitmq_management_agent", "rabbitmq_message_deduplication",
    "rabbitmq_mqtt", "rabbitmq_peer_discovery_aws", "rabbitmq_peer_discovery_common",
    "rabbitmq_peer_discovery_consul", "rabbitmq_peer_discovery_etcd",
    "rabbitmq_peer_discovery_k8s", "rabbitmq_prometheus", "rabbitmq_random_exchange",
    "rabbitmq_sharding", "rabbitmq_shovel", "rabbitmq_shovel_management", "rabbitmq_stomp",
    "rabbitmq_stream", "rabbitmq_top", "rabbitmq_tracing", "rabbitmq_trust_store",
    "rabbitmq_web_dispatch", "rabbitmq_web_mqtt", "rabbitmq_web_stomp", "ranch", "sasl", "ssl",
    "stdlib", "syslog", "sysmon_handler",
)  # fmt: skip
"""Applications of RabbitMQ, its plug-ins and Erlang: theirs may stand in a file."""
