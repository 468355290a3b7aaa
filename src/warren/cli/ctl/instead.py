"""Verbs that have nothing to do here, of RabbitMQ's tools: each says what to use instead.

They end as RabbitMQ's do where the outcome is the same (nothing was to be done: 0), else with 69.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.verbs import Argument, Contact, Family, Option, Verb, error

_CODE: Final = (
    "Erlang and Elixir code does not run here; what it is used for most: 'warrenctl status', "
    "'environment', 'list_queues' with columns, and the HTTP API"
)
_SECRET: Final = (
    "nodes prove to each other that they know WARREN_CLUSTER_SECRET; it is never shown: compare "
    "the nodes' configuration"
)
_MEMBERS: Final = (
    "members are kept in etcd and nodes keep no copy: 'warrenctl cluster_status' lists them, "
    "'forget_cluster_node' removes one"
)
_ATTEMPTS: Final = (
    "attempts are counted by protocol (list_node_auth_attempt_stats); sources are in the log: "
    "lines 'connection refused', and events user.authentication.* of consume_event_stream"
)
_REFUSED: Final = {
    "eval": (Family.OPERATIONS, _CODE),
    "eval_file": (Family.OPERATIONS, _CODE),
    "exec": (Family.OPERATIONS, _CODE),
    "remote_shell": (Family.OPERATIONS, _CODE),
    "schema_info": (
        Family.MONITORING,
        "there is no Mnesia: 'warrenctl export_definitions -' shows what is stored",
    ),
    "change_cluster_node_type": (
        Family.CLUSTER,
        "all nodes are of one type: metadata is in etcd, and messages are on the nodes' disks",
    ),
    "rename_cluster_node": (
        Family.CLUSTER,
        "a directory belongs to one member: add a node, move queues by policy, forget the old one",
    ),
    "update_cluster_nodes": (Family.CLUSTER, _MEMBERS),
    "erlang_cookie_hash": (Family.CONFIGURATION, _SECRET),
    "erlang_cookie_sources": (Family.CONFIGURATION, _SECRET),
    "resolver_info": (
        Family.CONFIGURATION,
        "the operating system resolves names: 'warrenctl resolve_hostname HOST' asks it",
    ),
    "maybe_stuck": (
        Family.MONITORING,
        "a node is one event loop: 'warrenctl list_unresponsive_queues' shows if it is stuck",
    ),
    "runtime_thread_stats": (
        Family.MONITORING,
        "a node is one event loop: 'warrenctl observer' shows what it does",
    ),
    "enable_auth_attempt_source_tracking": (Family.MONITORING, _ATTEMPTS),
    "disable_auth_attempt_source_tracking": (Family.MONITORING, _ATTEMPTS),
    "reset_node_auth_attempt_metrics": (
        Family.MONITORING,
        "counters only grow, until the node restarts: take differences (rate() in Prometheus)",
    ),
    "directories": (
        Family.PLUGINS,
        "there are no plug-in files: 'rabbitmq-plugins list' shows what is built in",
    ),
    "reclaim_quorum_memory": (
        Family.REPLICATION,
        "quorum queues keep messages as all queues do, and nodes page them out by themselves",
    ),
}
_NOTHING_TO_DO: Final = {
    "hipe_compile": (
        Family.OPERATIONS,
        "This command is a no-op. HiPE is no longer supported by modern Erlang versions",
    ),
    "force_gc": (
        Family.OPERATIONS,
        "Nothing to do: the node releases memory by itself; 'warrenctl memory_breakdown' shows it",
    ),
}
# Options that scripts give to these verbs.
_OPTIONS: Final = (
    Option("vhost-pattern", "as RabbitMQ's tools have it"),
    Option("queue-pattern", "as RabbitMQ's tools have it"),
    Option("errors-only", "as RabbitMQ's tools have it"),
)
_ANYTHING: Final = Argument("word", "as RabbitMQ's tools have it", is_rest=True)


def _refusing(text: str) -> Callable[[Call], Answer]:
    def refuse(_: Call) -> Answer:
        raise error(text)

    return refuse


def _saying(text: str) -> Callable[[Call], Answer]:
    return lambda _: text


def _verb(name: str, family: Family, run: Callable[[Call], Answer], summary: str) -> Verb:
    return Verb(
        name=name,
        family=family,
        summary=summary,
        run=run,
        arguments=(_ANYTHING,),
        options=_OPTIONS,
        contact=Contact.NONE,
    )


VERBS: Final = (
    *(
        _verb(name, family, _refusing(text), "Says what to use instead")
        for name, (family, text) in _REFUSED.items()
    ),
    *(
        _verb(name, family, _saying(text), "Has nothing to do")
        for name, (family, text) in _NOTHING_TO_DO.items()
    ),
)
