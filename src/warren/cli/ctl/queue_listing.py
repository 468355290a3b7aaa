"""list_queues and list_unresponsive_queues."""

from __future__ import annotations

from typing import Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table
from warren.cli.ctl.listing import (
    COLUMN_ARGUMENT,
    Column,
    Item,
    by_name,
    choose,
    connection_pid,
    fields_of,
    fill,
    in_vhost,
    pid_of,
    plain,
    table,
    word,
)
from warren.cli.ctl.terms import Atom
from warren.cli.ctl.tools import Tool
from warren.cli.ctl.verbs import QUIET_FORMATTERS, Family, Kind, Option, Verb

LIST_TIMEOUT_S: Final = 60.0
QUEUE_TIMEOUT_MS: Final = 15_000
_DELTA_COUNT: Final = 2
"""Where RabbitMQ's way to write a delta has its count."""
NAMED_MAX: Final = 5
OFFLINE_STATES: Final = frozenset({"down", "stopped", "crashed"})


def _pid(item: Item) -> object:
    return pid_of(str(item.get("node")), "queue", item["vhost"], item["name"])


def _owner_pid(item: Item) -> object:
    owner = item.get("owner_pid_details") or {}
    return connection_pid(str(item.get("node")), owner["name"]) if owner.get("name") else None


def _mirror_pids(field: str) -> Column:
    def pids(item: Item) -> object:
        nodes = item.get(field)
        if nodes is None:
            return None
        return [pid_of(node, "queue", item["vhost"], item["name"]) for node in nodes]

    return Column(field, pids, (field, "vhost", "name"))


def _aliased(name: str, column: Column) -> Column:
    return Column(name, column.value, column.fields)


def _state(item: Item) -> object:
    if item.get("state") == "syncing":
        return Atom(f"{{syncing, {item.get('sync_messages', 0)}}}")
    return Atom(item.get("state") or "running")


def _counted(name: str) -> Column:
    """A counter that is absent until something happens."""
    return Column(name, lambda item: (item.get("message_stats") or {}).get(name, 0), (
        "message_stats",
    ))  # fmt: skip


def _tier(name: str) -> Column:
    """Ready messages in one of the states of a backing queue; unknown of a queue that is down."""

    def count(item: Item) -> object:
        value = (item.get("backing_queue_status") or {}).get(name)
        if isinstance(value, list) and len(value) > _DELTA_COUNT:
            return value[_DELTA_COUNT]
        return value

    return Column(name, count, ("backing_queue_status",))


_MIRRORS: Final = _mirror_pids("slave_nodes")
_SYNCHRONISED: Final = _mirror_pids("synchronised_slave_nodes")

COLUMNS: Final = by_name(
    plain("name", "durable", "auto_delete"),
    table("arguments"),
    plain("policy", "operator_policy", "effective_policy_definition"),
    Column("pid", _pid, ("node", "vhost", "name")),
    Column("owner_pid", _owner_pid, ("node", "owner_pid_details")),
    plain("exclusive", "exclusive_consumer_pid", "exclusive_consumer_tag"),
    plain("messages_ready", "messages_unacknowledged", "messages"),
    plain("messages_ready_ram", "messages_unacknowledged_ram", "messages_ram"),
    plain("messages_persistent", "messages_paged_out"),
    [_tier(name) for name in ("alpha", "beta", "gamma", "delta")],
    plain("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"),
    plain("message_bytes_ram", "message_bytes_persistent", "message_bytes_paged_out"),
    plain("head_message_timestamp", "head_message_age_ms"),
    _counted("disk_reads"),
    _counted("disk_writes"),
    plain("consumers", "consumer_utilisation", "consumer_capacity", "memory"),
    Column("state", _state, ("state", "sync_messages")),
    word("type"),
    plain("leader", "members", "online"),
    _aliased("slave_pids", _MIRRORS),
    _aliased("mirror_pids", _MIRRORS),
    _aliased("synchronised_slave_pids", _SYNCHRONISED),
    _aliased("synchronised_mirror_pids", _SYNCHRONISED),
    plain("wanted_copies", "synchronised_copies"),
    plain("recoverable_slaves", "idle_since"),
)

_ONLINE: Final = Option("online", "lists only queues on online (reachable) nodes")
_OFFLINE: Final = Option("offline", "lists only queues on offline (unreachable) nodes")
_LOCAL: Final = Option("local", "only return queues hosted on the target node")


def list_queues(call: Call) -> Answer:
    columns = choose(call, COLUMNS, ("name", "messages"))
    call.announce(f"Timeout: {call.timeout_s or 'infinity'} seconds ...")
    call.announce(f"Listing queues for vhost {call.vhost} ...")
    fields = fields_of(columns, "name", "state", "node", "type", "members")
    items = _wanted(call, in_vhost(call, "queues", columns=fields))
    _warn_of_single_copies(call, items)
    return fill(columns, items)


def _warn_of_single_copies(call: Call, items: list[Item]) -> None:
    """Say which quorum queues are on one node alone, which nobody expects of them."""
    alone = [str(i["name"]) for i in items if i.get("type") == "quorum" and _is_alone(i)]
    if alone and not Tool.is_rabbitmq() and call.formatter not in QUIET_FORMATTERS:
        more = f" and {len(alone) - NAMED_MAX} more" if len(alone) > NAMED_MAX else ""
        named = ", ".join(alone[:NAMED_MAX])
        call.warn(f"Quorum queues with one copy only (column members): {named}{more}")


def _is_alone(item: Item) -> bool:
    return len(item.get("members") or ()) == 1


def _wanted(call: Call, items: list[Item]) -> list[Item]:
    is_online, is_offline = call.flag("online"), call.flag("offline")
    if is_online != is_offline:
        items = [i for i in items if (i.get("state") in OFFLINE_STATES) == is_offline]
    if call.flag("local"):
        items = [item for item in items if item.get("node") == call.node]
    return items


def list_unresponsive_queues(call: Call) -> Answer:
    """A queue that answers neither itself nor through its node is listed as down."""
    columns = choose(call, _UNRESPONSIVE_COLUMNS, ("name",))
    call.announce(f"Listing unresponsive queues for vhost {call.vhost} ...")
    items = in_vhost(call, "queues", columns=fields_of(columns, "name", "state", "node"))
    silent = [item for item in items if item.get("state") in OFFLINE_STATES]
    answer: Table = fill(columns, _wanted(call, silent))
    return answer


_UNRESPONSIVE_COLUMNS: Final = {
    name: COLUMNS[name]
    for name in ("name", "durable", "auto_delete", "arguments", "pid", "recoverable_slaves")
}

VERBS: Final = (
    Verb(
        name="list_queues",
        family=Family.MONITORING,
        summary="Lists queues and their properties",
        run=list_queues,
        arguments=(COLUMN_ARGUMENT,),
        options=(_ONLINE, _OFFLINE, _LOCAL),
        is_scoped=True,
        is_table=True,
        timeout_s=LIST_TIMEOUT_S,
        columns=tuple(COLUMNS),
    ),
    Verb(
        name="list_unresponsive_queues",
        family=Family.MONITORING,
        summary="Lists queues that do not respond",
        run=list_unresponsive_queues,
        arguments=(COLUMN_ARGUMENT,),
        options=(
            _LOCAL,
            Option("queue-timeout", "accepted for rabbitmqctl's sake", Kind.INTEGER),
        ),
        is_scoped=True,
        is_table=True,
        columns=tuple(_UNRESPONSIVE_COLUMNS),
    ),
)
