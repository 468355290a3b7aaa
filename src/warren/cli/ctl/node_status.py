"""`status`: a node's sections, in rabbitmqctl's order and words."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.help import bold
from warren.cli.ctl.verbs import Family, Verb

GIGABYTE: Final = 1_000_000_000
PURPOSES: Final = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "clustering": "inter-node and CLI tool communication",
    "http": "HTTP API",
    "https": "HTTP API (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
}
EVERYWHERE: Final = ("0.0.0.0", "::")
ALARM_NAMES: Final = {"mem_alarm": "Memory", "disk_free_alarm": "Free disk space"}

Node = Mapping[str, Any]


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"{bold(title)}\n"
    empty = True
    for line in lines:
        empty = False
        yield line
    yield "" if not empty else "(none)\n"


def listeners_of(call: Call, node: str) -> list[dict[str, Any]]:
    """As rabbitmqctl shows them; the same for a node and for a cluster."""
    found: Any = call.overview["listeners"]
    return [as_listener(listener) for listener in found if listener["node"] == node]


def suspended_listeners_of(call: Call, node: str) -> list[dict[str, Any]]:
    """Listeners that accept nobody at the moment: of a drained node, or by suspend_listeners."""
    known = call.api.get_or_none("warren", "nodes", node, "listeners") or {"suspended": []}
    return [as_listener({**listener, "node": node}) for listener in known["suspended"]]


def host_of(call: Call, listener: Mapping[str, Any]) -> str:
    """Host to connect to: the one of the address, or for another node its own."""
    from urllib.parse import urlsplit

    asked = urlsplit(call.target.url).hostname or ""
    if call.is_asked_itself:
        return asked
    interface = str(listener["interface"]).strip("[]")
    return interface if interface not in EVERYWHERE else str(listener["node"]).partition("@")[2]


def as_listener(listener: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "interface": _interface(listener["ip_address"]),
        "node": listener["node"],
        "port": listener["port"],
        "protocol": listener["protocol"],
        "purpose": PURPOSES.get(listener["protocol"], listener["protocol"]),
    }


def _interface(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def listener_line(listener: Mapping[str, object]) -> str:
    return (
        f"interface: {listener['interface']}, port: {listener['port']}, "
        f"protocol: {listener['protocol']}, purpose: {listener['purpose']}"
    )


def alarms_of(nodes: Iterable[Node]) -> list[str]:
    """One line for each alarm in effect."""
    return [
        f"{what} alarm on node {node['name']}"
        for node in nodes
        for field, what in ALARM_NAMES.items()
        if node.get(field)
    ]


def memory_shares(memory: Mapping[str, Any]) -> list[tuple[str, int, float]]:
    """What it is used for, bytes and percentage, most first."""
    total = memory["total"]
    whole = max(total.get(memory.get("strategy", "rss"), total["rss"]), 1)
    parts = [
        (name, int(size), round(100 * size / whole, 2))
        for name, size in memory.items()
        if isinstance(size, int)
    ]
    return sorted(parts, key=lambda part: -part[1])


def gigabytes(size: float) -> float:
    return round(size / GIGABYTE, 4)


def status(call: Call) -> Answer:
    node = call.api.get("nodes", call.node)
    memory = call.api.get("nodes", call.node, "memory")["memory"]
    call.announce(f"Status of node {call.node} ...")
    found = _status(call, node, memory)
    return Document("\n".join(_sections(found)).rstrip("\n"), found)


def _status(call: Call, node: Node, memory: Mapping[str, Any]) -> dict[str, Any]:
    overview: Any = call.overview
    return {
        "active_plugins": node.get("enabled_plugins", []),
        "alarms": alarms_of([node]),
        "config_files": node.get("config_files", []),
        "data_directory": node.get("db_dir", ""),
        "disk_free": node.get("disk_free"),
        "disk_free_limit": node.get("disk_free_limit"),
        "erlang_version": overview.get("erlang_full_version", ""),
        "file_descriptors": {
            "sockets_limit": node.get("sockets_total"),
            "sockets_used": node.get("sockets_used"),
            "total_limit": node.get("fd_total"),
            "total_used": node.get("fd_used"),
        },
        "is_under_maintenance": _is_drained(call),
        "listeners": listeners_of(call, call.node),
        "log_files": node.get("log_files", []),
        "memory": memory,
        "net_ticktime": node.get("net_ticktime"),
        "os": platform.system(),
        "pid": int(node.get("os_pid", 0)),
        "processes": {"limit": node.get("proc_total"), "used": node.get("proc_used")},
        "product_name": overview.get("product_name", ""),
        "product_version": overview.get("product_version", ""),
        "rabbitmq_version": overview.get("rabbitmq_version", ""),
        "node": call.node,
        "run_queue": node.get("run_queue"),
        "totals": {
            "virtual_host_count": len(call.api.get("vhosts", columns="name")),
            "connection_count": overview["object_totals"].get("connections", 0),
            "queue_count": overview["object_totals"].get("queues", 0),
        },
        "uptime": int(node.get("uptime", 0)) // 1000,
        "warren_version": overview.get("warren_version", ""),
        "vm_memory_calculation_strategy": node.get("mem_calculation_strategy"),
        "vm_memory_high_watermark_limit": node.get("mem_limit"),
    }


def _is_drained(call: Call) -> bool:
    """RabbitMQ's API does not tell."""
    known = call.api.get_or_none("warren", "cluster") or {"members": []}
    return any(member["drained"] for member in known["members"] if member["name"] == call.node)


def _sections(found: Mapping[str, Any]) -> Iterator[str]:
    yield from section("Runtime", _runtime(found))
    yield from section("Plugins", _bullets(found["active_plugins"], "Enabled plugins:\n"))
    yield from section("Data directory", [f"Node data directory: {found['data_directory']}"])
    yield from section("Config files", _bullets(found["config_files"]))
    yield from section("Log file(s)", _bullets(found["log_files"]))
    yield from section("Alarms", found["alarms"])
    yield from section("Memory", _memory(found))
    files = found["file_descriptors"]
    yield from section(
        "File Descriptors",
        [
            f"Total: {files['total_used']}, limit: {files['total_limit']}",
            f"Sockets: {files['sockets_used']}, limit: {files['sockets_limit']}",
        ],
    )
    yield from section(
        "Free Disk Space",
        [
            f"Low free disk space watermark: {gigabytes(found['disk_free_limit'])} gb",
            f"Free disk space: {gigabytes(found['disk_free'])} gb",
        ],
    )
    yield from section("Totals", _totals(found["totals"]))
    yield from section("Listeners", map(_own_listener, found["listeners"]))


def _own_listener(listener: Mapping[str, object]) -> str:
    return "I" + listener_line(listener)[1:]


def _runtime(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"OS PID: {found['pid']}"
    yield f"OS: {found['os']}"
    yield f"Uptime (seconds): {found['uptime']}"
    yield f"Is under maintenance?: {str(found['is_under_maintenance']).lower()}"
    if found["warren_version"]:
        yield f"Warren version: {found['warren_version']}"
    yield f"RabbitMQ version: {found['rabbitmq_version']}"
    yield f"Node name: {found['node']}"
    runtime = "Runtime" if found["warren_version"] else "Erlang configuration"
    yield f"{runtime}: {found['erlang_version']}"
    yield f"Cluster heartbeat timeout (net_ticktime): {found['net_ticktime']}"


def _bullets(names: Iterable[str], heading: str | None = None) -> Iterator[str]:
    for number, name in enumerate(names):
        if heading is not None and number == 0:
            yield heading
        yield f" * {name}"


def _memory(found: Mapping[str, Any]) -> Iterator[str]:
    memory = found["memory"]
    limit = gigabytes(found["vm_memory_high_watermark_limit"])
    yield f"Total memory used: {gigabytes(memory['total']['rss'])} gb"
    yield f"Calculation strategy: {found['vm_memory_calculation_strategy']}"
    yield f"Memory high watermark computed to: {limit} gb\n"
    for name, size, share in memory_shares(memory):
        yield f"{name}: {gigabytes(size)} gb ({share} %)"


def _totals(totals: Mapping[str, int]) -> Iterator[str]:
    yield f"Connection count: {totals['connection_count']}"
    yield f"Queue count: {totals['queue_count']}"
    yield f"Virtual host count: {totals['virtual_host_count']}"


VERBS: Final = (
    Verb(
        name="status",
        family=Family.MONITORING,
        summary="Displays status of a node",
        run=status,
    ),
)
