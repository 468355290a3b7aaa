"""Diagnosis of a node's process and machine: certificates, TLS, network, environment, logins."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.cli.ctl.api import Refusal, require_node
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table
from warren.cli.ctl.nodes import POLL_S, STARTUP_TIMEOUT_S, check_ready, wait_until_ready
from warren.cli.ctl.verbs import (
    Argument,
    Contact,
    Exit,
    Failure,
    Family,
    Kind,
    Option,
    Verb,
    WrongUsage,
    error,
)


def certificates(call: Call) -> Answer:
    call.announce(f"Certificates of node {call.node} ...")
    found = _facts(call, "certificates")
    lines = [
        f"Interface: {one['interface']}, port: {one['port']}, protocol: {one['protocol']}, "
        f"certificate: {one['certfile']}, CA: {one['cacertfile'] or '(none)'}, "
        f"expires: {', '.join(one['expires']) or '(unreadable)'}"
        for one in found
    ]
    return Document("\n".join(lines) or "(no listener uses TLS)", found)


def cipher_suites(call: Call) -> Answer:
    if (call.text("format") or "openssl") != "openssl":
        raise WrongUsage("cipher suites are shown in OpenSSL's format only: --format openssl")
    call.announce("Listing available cipher suites in OpenSSL format")
    name = "all_cipher_suites" if call.flag("all") else "cipher_suites"
    return _lines(_facts(call, "tls")[name])


def tls_versions(call: Call) -> Answer:
    call.announce("Listing all TLS versions supported by the runtime...")
    return _lines(_facts(call, "tls")["versions"])


def os_env(call: Call) -> Answer:
    call.announce(f"Listing RabbitMQ-specific environment variables defined on node {call.node}...")
    found: dict[str, str] = _facts(call, "os-env")
    return Document("\n".join(f"{name}={value}" for name, value in found.items()), found)


def command_line_arguments(call: Call) -> Answer:
    call.announce(f"Command line arguments of node {call.node} ...")
    return _lines(_facts(call, "command-line"))


def list_network_interfaces(call: Call) -> Answer:
    call.announce(f"Listing network interfaces on node {call.node} ...")
    found: dict[str, list[str]] = _facts(call, "network-interfaces")
    lines = [f"Interface {name}\n{', '.join(where)}\n" for name, where in found.items()]
    return Document("\n".join(lines).rstrip("\n"), found)


def resolve_hostname(call: Call) -> Answer:
    name, family = call.arguments[0], call.text("address-family") or ""
    if family.lower() not in {"", "ipv4", "ipv6"}:
        raise WrongUsage("unsupported address family: ipv4 and ipv6 are the supported ones")
    call.announce(f"Resolving hostname {name} (address family: {family or 'any'})...")
    query = {"family": family} if family else {}
    try:
        found = call.api.get("warren", "nodes", call.node, "resolve", name, **query)
    except Refusal as refusal:
        raise error(refusal.reason) from refusal
    return _lines(found["addresses"])


def discover_peers(call: Call) -> Answer:
    call.announce("Discovering peers nodes ...")
    return _lines([str(node["name"]) for node in call.api.get("nodes", columns="name")])


def erlang_version(call: Call) -> Answer:
    call.announce(f"Asking node {call.node} for its Erlang/OTP version...")
    return str(call.overview["erlang_full_version"])


def list_node_auth_attempt_stats(call: Call) -> Answer:
    call.announce(f'Listing authentication attempts for node "{call.node}" ...')
    if call.flag("by-source"):
        raise error(
            "attempts are counted by protocol; their sources are in the log: 'warrenctl log_tail'"
        )
    rows = _facts(call, "auth-attempts")
    if not rows:
        return f"Node {call.node} reported no authentication attempt stats"
    return Table(tuple(rows[0]), rows)


def is_booting(call: Call) -> Answer:
    """A node that is starting answers that AMQP is not open."""
    call.announce(f"Asking node {call.node} for its boot status ...")
    if call.is_asked_itself:
        try:
            check_ready(call.api)
        except Failure:
            return f"RabbitMQ on node {call.node} is booting"
    return (
        f"RabbitMQ on node {call.node} is fully booted (check with is_running), "
        "stopped or has not started booting yet"
    )


def restart_vhost(call: Call) -> Answer:
    call.announce(f"Trying to restart vhost '{call.vhost}' on node '{call.node}' ...")
    if call.api.get_or_none("vhosts", call.vhost) is None:
        raise error(
            f"Failed to start vhost '{call.vhost}' on node '{call.node}'"
            f'Reason: {{:no_such_vhost, "{call.vhost}"}}',
            Exit.SOFTWARE,
        )
    return f"Vhost '{call.vhost}' is already running on node '{call.node}'"


def suspend_listeners(call: Call) -> Answer:
    call.announce(
        f"Will suspend client connection listeners on node {call.node}. "
        "The node will no longer accept client connections!"
    )
    return _suspend(call, True)


def resume_listeners(call: Call) -> Answer:
    call.announce(
        f"Will resume client connection listeners on node {call.node}. "
        "The node will now accept client connections"
    )
    return _suspend(call, False)


def _suspend(call: Call, is_suspended: bool) -> Answer:
    body = {"suspended": is_suspended}
    call.api.put("warren", "nodes", call.node, "listeners", body=body)
    return None


def wait(call: Call) -> Answer:
    """Wait for a node that another program starts, as long as its process runs."""
    pid = call.integer("pid")
    deadline = time.monotonic() + (call.timeout_s or STARTUP_TIMEOUT_S)
    if pid is None:
        pid = _pid_in(call, deadline)
    call.announce(f"Waiting for node at {call.target.url} while OS process '{pid}' is running")
    while True:
        if not _runs(pid):
            raise error("process_not_running")
        try:
            api = call.another_api(max(POLL_S, deadline - time.monotonic()))
            require_node(api, call.text("node"))
        except Failure:
            if time.monotonic() >= deadline:
                raise _late(call) from None
            time.sleep(POLL_S)
        else:
            break
    wait_until_ready(call, STARTUP_TIMEOUT_S)
    return f"Applications 'rabbit_and_plugins' are running on node '{call.node}'"


def _pid_in(call: Call, deadline: float) -> int:
    from pathlib import Path

    place = call.argument(0)
    if place is None:
        raise WrongUsage("neither a pidfile nor --pid is given")
    call.announce(f"Waiting for pid file '{place}' to appear")
    while True:
        try:
            text = Path(place).read_text().strip()
        except OSError:
            text = ""
        if text.isdecimal():
            call.announce(f"pid is {text}")
            return int(text)
        if time.monotonic() >= deadline:
            raise _late(call)
        time.sleep(POLL_S)


def _runs(pid: int) -> bool:
    import os

    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _late(call: Call) -> Failure:
    waited_ms = round((call.timeout_s or STARTUP_TIMEOUT_S) * 1000)
    text = f"Error: operation wait on node at {call.target.url} timed out. Timeout value used: "
    return Failure(f"{text}{waited_ms}", Exit.TEMPORARY)


def _facts(call: Call, what: str) -> Any:
    return call.api.get("warren", "nodes", call.node, "diagnostics", what)


def _lines(lines: list[str]) -> Document:
    return Document("\n".join(lines), lines)


def _verb(name: str, summary: str, run: Any, *arguments: Argument, **more: Any) -> Verb:
    family = more.pop("family", Family.MONITORING)
    return Verb(name=name, family=family, summary=summary, run=run, arguments=arguments, **more)


_FORMAT: Final = Option("format", "openssl", Kind.TEXT)
_FAMILY: Final = Option("address-family", "ipv4 or ipv6", Kind.TEXT)

VERBS: Final = (
    _verb("certificates", "Shows the certificates of listeners that use TLS", certificates),
    _verb(
        "cipher_suites",
        "Lists cipher suites that are enabled by default",
        cipher_suites,
        options=(Option("all", "all that there are"), _FORMAT),
    ),
    _verb("tls_versions", "Lists versions of TLS that the node knows", tls_versions),
    _verb("os_env", "Lists variables of the node's environment for Warren", os_env),
    _verb("command_line_arguments", "Shows how the node was started", command_line_arguments),
    _verb("list_network_interfaces", "Lists network interfaces", list_network_interfaces),
    _verb(
        "resolve_hostname",
        "Resolves a host name, on the node",
        resolve_hostname,
        Argument("hostname", "the name"),
        options=(_FAMILY,),
    ),
    _verb("discover_peers", "Lists the nodes of the cluster", discover_peers),
    _verb("erlang_version", "Displays what the node runs on", erlang_version),
    _verb(
        "list_node_auth_attempt_stats",
        "Lists authentication attempts at the node, by protocol",
        list_node_auth_attempt_stats,
        options=(Option("by-source", "not counted here: says where to look"),),
        is_table=True,
    ),
    _verb("is_booting", "Says whether the node is still starting", is_booting),
    _verb(
        "restart_vhost",
        "Says that a virtual host runs: it does as long as its node",
        restart_vhost,
        family=Family.VHOSTS,
        is_scoped=True,
    ),
    _verb(
        "suspend_listeners",
        "Makes the node accept no more AMQP clients; connections stay",
        suspend_listeners,
        family=Family.OPERATIONS,
    ),
    _verb(
        "resume_listeners",
        "Makes the node accept AMQP clients again",
        resume_listeners,
        family=Family.OPERATIONS,
    ),
    _verb(
        "wait",
        "Waits until a node has started whose process is known by its id",
        wait,
        Argument("pidfile", "file with the process id", is_optional=True),
        options=(Option("pid", "the process id itself", Kind.INTEGER, "P"),),
        family=Family.NODES,
        contact=Contact.OWN,
        timeout_s=STARTUP_TIMEOUT_S,
    ),
)
