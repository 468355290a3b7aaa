"""rabbitmq-diagnostics' checks: an exit code for monitoring, a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from warren.cli.ctl.api import Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table
from warren.cli.ctl.node_status import (
    alarms_of,
    gigabytes,
    host_of,
    listener_line,
    listeners_of,
    memory_shares,
    suspended_listeners_of,
)
from warren.cli.ctl.verbs import (
    Argument,
    Failure,
    Family,
    Kind,
    Option,
    Verb,
    WrongUsage,
    error,
)

CONNECT_TIMEOUT_S: Final = 5.0
UNITS: Final = ("bytes", "mb", "gb")
MEGABYTE: Final = 1_000_000


def check_running(call: Call) -> Answer:
    call.announce(f"Checking if RabbitMQ is running on node {call.node} ...")
    return _running(call)


def is_running(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} for its status ...")
    return _running(call)


def _running(call: Call) -> Answer:
    node = call.api.get("nodes", call.node)
    if not node["running"]:
        raise error(f"RabbitMQ on node {call.node} is not running or has not fully booted yet")
    return f"RabbitMQ on node {call.node} is fully booted and running"


def check_local_alarms(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} to report any local resource alarms ...")
    _no_alarms(alarms_of([call.api.get("nodes", call.node)]))
    return _passed(call, f"Node {call.node} reported no local alarms")


def check_alarms(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} to report any local resource alarms ...")
    _no_alarms(alarms_of(call.api.get("nodes")))
    return _passed(call, f"Node {call.node} reported no alarms, local or clusterwide")


def _passed(call: Call, text: str) -> Answer:
    return None if call.formatter == "json" else text


def _no_alarms(lines: list[str]) -> None:
    if lines:
        raise error("\n".join(lines))


def alarms(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} to report any known resource alarms ...")
    lines = alarms_of(call.api.get("nodes"))
    text = f"Node {call.node} reported no alarms, local or clusterwide"
    if lines:
        text = "\n".join([f"Node {call.node} reported the following alarms:\n", *lines])
    return Document(text, {"alarms": lines, "node": call.node, "result": "ok"})


def node_health_check(call: Call) -> Answer:
    call.announce(f"Checking health of node {call.node} ...")
    try:
        call.api.get("healthchecks", "node", call.node)
    except Refusal as refusal:
        raise error(f"health check failed. Message: {refusal.reason}") from refusal
    return "Health check passed"


def list_alarms(call: Call) -> Answer:
    call.announce("Listing alarms, and the connections they block ...")
    columns = ("node", "resource", "since", "blocked_connections")
    rows = [
        {
            **alarm,
            "blocked_connections": [c["name"] for c in alarm["blocked_connections"]],
        }
        for alarm in call.api.get("warren", "alarms")
    ]
    return Table(columns, rows)


def listeners(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} to report its protocol listeners ...")
    found = listeners_of(call, call.node)
    lines = [f"I{listener_line(listener)[1:]}" for listener in found]
    return Document("\n".join(lines), {"listeners": found, "node": call.node, "result": "ok"})


def check_port_listener(call: Call) -> Answer:
    port = call.integer_argument(0)
    call.announce(f"Asking node {call.node} if there's an active listener on port {port} ...")
    ports = sorted(listener["port"] for listener in listeners_of(call, call.node))
    if port not in ports:
        raise Failure(
            f"No listener for port {port} is active on node {call.node}. Found listeners that use "
            f"the following ports: {', '.join(map(str, ports))}"
        )
    return f"A listener for port {port} is running on node {call.node}."


def check_protocol_listener(call: Call) -> Answer:
    protocol = call.arguments[0]
    call.announce(
        f"Asking node {call.node} if there's an active listener for protocol {protocol} ..."
    )
    known = sorted({listener["protocol"] for listener in listeners_of(call, call.node)})
    if protocol.lower() not in {*known, *(name.replace("amqp", "amqp091") for name in known)}:
        raise error(
            f"No listener for protocol {protocol} is active on node {call.node}. Found listeners "
            f"for the following protocols: {', '.join(known)}"
        )
    return f"A listener for protocol {protocol} is running on node {call.node}."


def check_port_connectivity(call: Call) -> Answer:
    import socket

    call.announce(f"Testing TCP connections to all active listeners on node {call.node} ...")
    found = [*listeners_of(call, call.node), *suspended_listeners_of(call, call.node)]
    closed = []
    for listener in found:
        place = (host_of(call, listener), listener["port"])
        try:
            socket.create_connection(place, CONNECT_TIMEOUT_S).close()
        except OSError:
            closed.append(f"I{listener_line(listener)[1:]}")
    if closed:
        shut = "\n".join(dict.fromkeys(closed))
        raise error(f"Connection to ports of the following listeners on node {call.node} failed: "
                    f"\n{shut}")  # fmt: skip
    names = ", ".join(map(str, sorted({listener["port"] for listener in found})))
    return f"Successfully connected to ports {names} on node {call.node}."


def check_virtual_hosts(call: Call) -> Answer:
    call.announce(f"Checking if all vhosts are running on node {call.node} ...")
    stopped = [
        vhost["name"]
        for vhost in call.api.get("vhosts", columns="name,cluster_state")
        if (vhost.get("cluster_state") or {}).get(call.node, "stopped") != "running"
    ]
    if stopped:
        raise error(f"Some virtual hosts on node {call.node} are down:\n" + "\n".join(stopped))
    return f"Node {call.node} reported all vhosts as running"


def check_certificate_expiration(call: Call) -> Answer:
    call.announce(f"Checking certificate expiration on node {call.node} ...")
    within = call.integer("within") or 4
    unit = call.text("unit") or "weeks"
    _check(call, "certificate-expiration", str(within), unit)
    return f"No certificates are expiring within {within} {unit}."


def check_all_members_running(call: Call) -> Answer:
    call.announce("Checking if all members of the cluster run and can be reached ...")
    facts = _failed(call, "all-members-running")
    if facts is not None:
        lines = [f"{name} is down" for name in facts["down"]]
        lines += [f"{name} cannot be reached" for name in facts["unreachable"]]
        raise error("\n".join(lines))
    return f"Node {call.node} reported all members of the cluster as running"


def check_all_queues_available(call: Call) -> Answer:
    call.announce("Checking if any queue of the cluster is down ...")
    _no_queues(_failed(call, "all-queues-available"))
    return f"Node {call.node} reported no queues that are down"


def check_all_copies_present(call: Call) -> Answer:
    call.announce("Checking if all queues have as many synchronised copies as wanted ...")
    _no_queues(_failed(call, "all-copies-present"))
    return f"Node {call.node} reported no queues with fewer synchronised copies than wanted"


def _no_queues(facts: Mapping[str, Any] | None) -> None:
    if facts is None:
        return
    lines = [
        f"queue '{queue['name']}' in vhost '{queue['vhost']}' is {queue['state']}: "
        f"{queue['synchronised_copies']} of {queue['wanted_copies']} copies in sync"
        for queue in facts["queues"]
    ]
    if left := facts["count"] - len(lines):
        lines.append(f"and {left} more")
    raise error("\n".join(lines))


def check_if_in_service(call: Call) -> Answer:
    call.announce(f"Checking if node {call.node} is in service ...")
    _check(call, "is-in-service")
    return f"Node {call.node} is in service: not in maintenance mode"


def _failed(call: Call, check: str) -> Mapping[str, Any] | None:
    """Return what a check that failed says, or None if it passed."""
    try:
        call.api.get("health", "checks", check, **call.about_node)
    except Refusal as refusal:
        if "status" not in refusal.facts:
            raise
        return refusal.facts
    return None


def _check(call: Call, *path: str) -> None:
    try:
        call.api.get("health", "checks", *path, **call.about_node)
    except Refusal as refusal:
        raise error(refusal.reason) from refusal


def memory_breakdown(call: Call) -> Answer:
    unit = call.text("unit") or "gb"
    if unit not in UNITS:
        supported = ", ".join(UNITS)
        raise WrongUsage(f"\"unit '{unit}' is not supported. Please use one of: {supported}\"")
    call.announce(f"Reporting memory breakdown on node {call.node}...")
    shares = memory_shares(call.api.get("nodes", call.node, "memory")["memory"])
    lines = [f"{name}: {_in_unit(size, unit)} {unit} ({share}%)" for name, size, share in shares]
    value = {name: {"bytes": size, "percentage": share} for name, size, share in shares}
    return Document("\n".join(lines), value)


def _in_unit(size: int, unit: str) -> float | int:
    if unit == "bytes":
        return size
    return gigabytes(size) if unit == "gb" else round(size / MEGABYTE, 4)


def server_version(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} for its RabbitMQ version...")
    version: Any = call.overview["rabbitmq_version"]
    return str(version)


def _verb(name: str, summary: str, run: Any, *arguments: Argument, **more: Any) -> Verb:
    return Verb(
        name=name,
        family=Family.MONITORING,
        summary=summary,
        run=run,
        arguments=arguments,
        **more,
    )


_WITHIN: Final = Option("within", "how far to look ahead; default 4", Kind.INTEGER, metavar="n")
_PERIOD: Final = Option("unit", "days, weeks, months or years; default weeks", Kind.TEXT)
_MEMORY_UNIT: Final = Option("unit", "bytes, mb or gb; default gb", Kind.TEXT)

VERBS: Final = (
    _verb("check_running", "Fails unless the node is running", check_running),
    _verb("is_running", "Fails unless the node is running", is_running),
    _verb("node_health_check", "Fails if the node is not well; deprecated", node_health_check),
    _verb("check_alarms", "Fails if any node of the cluster has an alarm", check_alarms),
    _verb("check_local_alarms", "Fails if the node has an alarm", check_local_alarms),
    _verb("alarms", "Shows the alarms in effect in the cluster", alarms),
    _verb(
        "list_alarms",
        "Lists alarms: where, since when, and which connections they block",
        list_alarms,
        is_table=True,
    ),
    _verb("listeners", "Lists what the node listens on", listeners),
    _verb(
        "check_port_listener",
        "Fails unless the node listens on a port",
        check_port_listener,
        Argument("port", "number of the port"),
    ),
    _verb(
        "check_protocol_listener",
        "Fails unless the node listens for a protocol",
        check_protocol_listener,
        Argument("protocol", "amqp, http, ..."),
    ),
    _verb(
        "check_port_connectivity",
        "Fails unless all ports of the node can be reached from here",
        check_port_connectivity,
    ),
    _verb("check_virtual_hosts", "Fails unless all virtual hosts run", check_virtual_hosts),
    _verb(
        "check_certificate_expiration",
        "Fails if a TLS certificate expires soon",
        check_certificate_expiration,
        options=(_WITHIN, _PERIOD),
    ),
    _verb(
        "check_all_members_running",
        "Fails if a member of the cluster is down or cannot be reached",
        check_all_members_running,
    ),
    _verb(
        "check_all_queues_available",
        "Fails if a queue of the cluster is down",
        check_all_queues_available,
    ),
    _verb(
        "check_all_copies_present",
        "Fails if a queue has fewer synchronised copies than its policy wants",
        check_all_copies_present,
    ),
    _verb(
        "check_if_in_service",
        "Fails if the node is in maintenance mode",
        check_if_in_service,
    ),
    _verb(
        "memory_breakdown",
        "Shows what the node uses memory for",
        memory_breakdown,
        options=(_MEMORY_UNIT,),
    ),
    _verb("server_version", "Displays the version the node is compatible with", server_version),
)
