"""Tools of RabbitMQ that this program behaves as, if it is called by their names through a link.

As one of them it has the verbs of that tool, shows its name, and ends with RabbitMQ's exit codes
also where those differ from verb to verb. The verbs are those that each tool of RabbitMQ 3.10.8
lists with `help`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Final

OWN_NAME: Final = "warrenctl"
_VERBS: Final = {
    "rabbitmqctl": (
        "add_user add_vhost authenticate_user autocomplete await_online_nodes await_startup "
        "cancel_sync_queue change_cluster_node_type change_password clear_global_parameter "
        "clear_operator_policy clear_parameter clear_password clear_permissions clear_policy "
        "clear_topic_permissions clear_user_limits clear_vhost_limits close_all_connections "
        "close_all_user_connections close_connection cluster_status decode delete_queue "
        "delete_user delete_vhost enable_feature_flag encode environment eval eval_file exec "
        "export_definitions force_boot force_gc force_reset forget_cluster_node help "
        "hipe_compile import_definitions join_cluster list_bindings list_channels "
        "list_ciphers list_connections list_consumers list_exchanges list_feature_flags "
        "list_global_parameters list_hashes list_node_auth_attempt_stats "
        "list_operator_policies list_parameters list_permissions list_policies list_queues "
        "list_topic_permissions list_unresponsive_queues list_user_limits "
        "list_user_permissions list_user_topic_permissions list_users list_vhost_limits "
        "list_vhosts node_health_check ping purge_queue rename_cluster_node report reset "
        "restart_vhost resume_listeners rotate_logs schema_info set_cluster_name "
        "set_disk_free_limit set_global_parameter set_log_level set_operator_policy "
        "set_parameter set_permissions set_policy set_topic_permissions set_user_limits "
        "set_user_tags set_vhost_limits set_vhost_tags set_vm_memory_high_watermark shutdown "
        "start_app status stop stop_app suspend_listeners sync_queue trace_off trace_on "
        "update_cluster_nodes version wait"
    ),
    "rabbitmq-diagnostics": (
        "alarms autocomplete certificates check_alarms check_certificate_expiration "
        "check_if_node_is_mirror_sync_critical check_if_node_is_quorum_critical "
        "check_local_alarms check_port_connectivity check_port_listener "
        "check_protocol_listener check_running check_virtual_hosts cipher_suites "
        "cluster_status command_line_arguments consume_event_stream "
        "disable_auth_attempt_source_tracking discover_peers "
        "enable_auth_attempt_source_tracking environment erlang_cookie_hash "
        "erlang_cookie_sources erlang_version help is_booting is_running list_bindings "
        "list_channels list_ciphers list_connections list_consumers list_exchanges "
        "list_feature_flags list_global_parameters list_hashes list_network_interfaces "
        "list_node_auth_attempt_stats list_operator_policies list_parameters list_permissions "
        "list_policies list_queues list_topic_permissions list_unresponsive_queues "
        "list_user_limits list_user_permissions list_user_topic_permissions list_users "
        "list_vhost_limits list_vhosts listeners log_location log_tail log_tail_stream "
        "maybe_stuck memory_breakdown node_health_check observer os_env ping quorum_status "
        "reclaim_quorum_memory remote_shell report reset_node_auth_attempt_metrics "
        "resolve_hostname resolver_info runtime_thread_stats schema_info server_version "
        "status stream_status tls_versions version wait"
    ),
    "rabbitmq-queues": (
        "add_member autocomplete check_if_node_is_mirror_sync_critical "
        "check_if_node_is_quorum_critical delete_member grow help peek quorum_status "
        "rebalance reclaim_quorum_memory shrink stream_status"
    ),
    "rabbitmq-upgrade": (
        "await_online_quorum_plus_one await_online_synchronized_mirror drain help "
        "post_upgrade revive"
    ),
    "rabbitmq-plugins": (
        "autocomplete directories disable enable help is_enabled list set version"
    ),
}
TOOLS: Final[Mapping[str, frozenset[str]]] = {
    name: frozenset(verbs.split()) for name, verbs in _VERBS.items()
}


class Tool:
    """The name that this program was called by, which decides what it offers."""

    name = OWN_NAME

    @classmethod
    def called_as(cls, program: str) -> None:
        name = PurePath(program).name
        cls.name = name if name in TOOLS else OWN_NAME

    @classmethod
    def is_rabbitmq(cls) -> bool:
        return cls.name in TOOLS

    @classmethod
    def has(cls, verb: str) -> bool:
        return verb in TOOLS.get(cls.name, (verb,))


def tool_with(verb: str) -> str:
    """The first of RabbitMQ's tools that has the verb; this program itself has all."""
    return next((name for name, verbs in TOOLS.items() if verb in verbs), OWN_NAME)
