"""Whether nodes are there, how their cluster is, stopping them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.cli.ctl.api import Api, NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.node_status import alarms_of, listener_line, listeners_of, section
from warren.cli.ctl.verbs import Argument, Exit, Failure, Family, Option, Verb, error

STARTUP_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.1
READY: Final = ("health", "checks", "ready")


def ping(call: Call) -> Answer:
    call.announce(f"Will ping {call.target.url}. Timeout: {call.timeout_s} s.")
    _check_ready(call.api)
    return "Ping succeeded"


def _check_ready(api: Api) -> None:
    """RabbitMQ has no such check; there, being answered at all is the sign."""
    try:
        api.get(*READY)
    except NotFound:
        api.get("whoami")
    except Refusal as refusal:
        raise error(f"the node at {api.target.url} is up, but not ready yet") from refusal


def await_startup(call: Call) -> Answer:
    deadline = time.monotonic() + (call.timeout_s or STARTUP_TIMEOUT_S)
    while True:
        try:
            _check_ready(call.another_api(max(POLL_S, deadline - time.monotonic())))
        except Failure as failure:
            if time.monotonic() >= deadline:
                raise Failure(
                    f"Error: the node at {call.target.url} did not start in time\n\n{failure.text}",
                    Exit.TEMPORARY,
                ) from failure
            time.sleep(POLL_S)
        else:
            return None


def await_online_nodes(call: Call) -> Answer:
    wanted = call.integer_argument(0)
    call.announce(f"Will wait for at least {wanted} nodes to join the cluster ...")
    deadline = time.monotonic() + (call.timeout_s or STARTUP_TIMEOUT_S)
    while sum(bool(node["running"]) for node in call.api.get("nodes")) < wanted:
        if time.monotonic() >= deadline:
            raise Failure(
                f"Error: fewer than {wanted} nodes are online after {call.timeout_s} s",
                Exit.TEMPORARY,
            )
        time.sleep(POLL_S)
    return None


def stop(call: Call) -> Answer:
    try:
        node = call.node
    except Failure:
        if call.flag("idempotent"):
            return f"Node at {call.target.url} is not running"
        raise
    call.announce(f"Stopping and halting node {node} ...")
    try:
        call.api.post("warren", "nodes", node, "stop")
    except NotFound as absent:
        raise error(f"{call.target.url} cannot be stopped over HTTP") from absent
    if not call.flag("no-wait"):
        _wait_until_gone(call)
    return None


def _wait_until_gone(call: Call) -> None:
    deadline = time.monotonic() + (call.timeout_s or STOP_TIMEOUT_S)
    while time.monotonic() < deadline:
        try:
            call.another_api(max(POLL_S, deadline - time.monotonic())).get(*READY)
        except Failure:
            return
        except Refusal:
            pass
        time.sleep(POLL_S)
    raise Failure(f"Error: the node at {call.target.url} is still there", Exit.TEMPORARY)


def cluster_status(call: Call) -> Answer:
    call.announce(f"Cluster status of node {call.node} ...")
    nodes = call.api.get("nodes")
    overview: Any = call.overview
    found = {
        "alarms": alarms_of(nodes),
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [node["name"] for node in nodes if node.get("type") != "ram"],
        "ram_nodes": [node["name"] for node in nodes if node.get("type") == "ram"],
        "running_nodes": [node["name"] for node in nodes if node["running"]],
        "versions": {node["name"]: _versions(overview) for node in nodes if node["running"]},
        "partitions": {n["name"]: n["partitions"] for n in nodes if n.get("partitions")},
        "maintenance_status": {node["name"]: "not under maintenance" for node in nodes},
        "listeners": {node["name"]: listeners_of(call, node["name"]) for node in nodes},
        "feature_flags": call.api.get_or_none("feature-flags") or [],
    }
    return Document("\n".join(_cluster_sections(found)).rstrip("\n"), found)


def _versions(overview: Mapping[str, Any]) -> dict[str, str]:
    return {
        "erlang_version": overview.get("erlang_version", ""),
        "rabbitmq_name": overview.get("product_name", ""),
        "rabbitmq_version": overview.get("product_version", ""),
        "warren_version": overview.get("warren_version", ""),
    }


def _cluster_sections(found: Mapping[str, Any]) -> Iterator[str]:
    yield from section("Basics", [f"Cluster name: {found['cluster_name']}"])
    yield from section("Disk Nodes", found["disk_nodes"])
    if found["ram_nodes"]:
        yield from section("RAM Nodes", found["ram_nodes"])
    yield from section("Running Nodes", found["running_nodes"])
    yield from section("Versions", map(_version_line, found["versions"].items()))
    yield from section(
        "Maintenance status",
        (f"Node: {n}, status: {status}" for n, status in found["maintenance_status"].items()),
    )
    yield from section("Alarms", found["alarms"])
    yield from section(
        "Network Partitions",
        (
            f"Node {n} cannot communicate with {', '.join(o)}"
            for n, o in found["partitions"].items()
        ),
    )
    yield from section(
        "Listeners",
        (f"Node: {n}, {listener_line(x)}" for n, own in found["listeners"].items() for x in own),
    )
    yield from section(
        "Feature flags",
        (f"Flag: {flag['name']}, state: {flag['state']}" for flag in found["feature_flags"]),
    )


def _version_line(version: tuple[str, Mapping[str, str]]) -> str:
    node, names = version
    compatible = f"{names['rabbitmq_name']} {names['rabbitmq_version']}"
    if names["warren_version"]:
        runtime = f"on Python {names['erlang_version']}"
        return f"{node}: Warren {names['warren_version']}, as {compatible}, {runtime}"
    return f"{node}: {compatible} on Erlang {names['erlang_version']}"


_NO_WAIT: Final = Option("no-wait", "do not wait until it is gone")

VERBS: Final = (
    Verb(
        name="ping",
        family=Family.MONITORING,
        summary="Checks that the node is up and serves AMQP",
        run=ping,
    ),
    Verb(
        name="await_startup",
        family=Family.NODES,
        summary="Waits for the node to start",
        run=await_startup,
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="await_online_nodes",
        family=Family.CLUSTER,
        summary="Waits for <count> nodes to join the cluster",
        run=await_online_nodes,
        arguments=(Argument("count", "how many members must be up"),),
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="stop",
        family=Family.NODES,
        summary="Stops the node, and waits until it is gone",
        run=stop,
        arguments=(Argument("pidfile", "accepted for rabbitmqctl's sake", is_optional=True),),
        options=(Option("idempotent", "success if the node is not running"), _NO_WAIT),
        timeout_s=STOP_TIMEOUT_S,
    ),
    Verb(
        name="shutdown",
        family=Family.NODES,
        summary="Stops the node, and waits until it is gone",
        run=stop,
        options=(
            Option("wait", "wait until it is gone (the default)"),
            _NO_WAIT,
        ),
        timeout_s=STOP_TIMEOUT_S,
    ),
    Verb(
        name="cluster_status",
        family=Family.CLUSTER,
        summary="Displays the nodes of the cluster, and which of them are running",
        run=cluster_status,
    ),
)
