"""`cluster_status`: the nodes of a cluster, in rabbitmqctl's sections and words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.node_status import (
    alarms_of,
    as_listener,
    listener_line,
    listeners_of,
    section,
)
from warren.cli.ctl.verbs import Family, Verb

UNDER_MAINTENANCE: Final = {True: "marked for maintenance", False: "not under maintenance"}
_ALARM_FIELDS: Final = {"memory": "mem_alarm", "disk": "disk_free_alarm"}

Found = dict[str, Any]


def cluster_status(call: Call) -> Answer:
    call.announce(f"Cluster status of node {call.node} ...")
    known = call.api.get_or_none("warren", "cluster")
    found = _by_members(call, known) if known is not None else _by_nodes(call)
    found["feature_flags"] = call.api.get_or_none("feature-flags") or []
    return Document("\n".join(_sections(found)).rstrip("\n"), found)


def _by_members(call: Call, known: Mapping[str, Any]) -> Found:
    """Every node of Warren's knows all of its cluster."""
    members = known["members"]
    running = [member for member in members if member["running"]]
    return {
        "alarms": alarms_of(
            {"name": member["name"], **{_ALARM_FIELDS[name]: True for name in member["alarms"]}}
            for member in running
        ),
        "cluster_name": known["name"],
        "disk_nodes": [member["name"] for member in members],
        "ram_nodes": [],
        "running_nodes": [member["name"] for member in running],
        "versions": {
            member["name"]: {
                **_versions(call.overview),
                "erlang_version": member["runtime"],
                "warren_version": member["version"],
            }
            for member in running
        },
        "partitions": {},
        "maintenance_status": {m["name"]: UNDER_MAINTENANCE[m["drained"]] for m in running},
        "listeners": {
            member["name"]: [
                as_listener({**listener, "node": member["name"]})
                for listener in member["listeners"]
            ]
            for member in running
        },
    }


def _by_nodes(call: Call) -> Found:
    """RabbitMQ's own API tells less."""
    nodes = call.api.get("nodes")
    overview: Any = call.overview
    return {
        "alarms": alarms_of(nodes),
        "cluster_name": overview["cluster_name"],
        "disk_nodes": [node["name"] for node in nodes if node.get("type") != "ram"],
        "ram_nodes": [node["name"] for node in nodes if node.get("type") == "ram"],
        "running_nodes": [node["name"] for node in nodes if node["running"]],
        "versions": {node["name"]: _versions(overview) for node in nodes if node["running"]},
        "partitions": {n["name"]: n["partitions"] for n in nodes if n.get("partitions")},
        "maintenance_status": {node["name"]: UNDER_MAINTENANCE[False] for node in nodes},
        "listeners": {node["name"]: listeners_of(call, node["name"]) for node in nodes},
    }


def _versions(overview: Mapping[str, Any]) -> dict[str, str]:
    return {
        "erlang_version": overview.get("erlang_version", ""),
        "rabbitmq_name": overview.get("product_name", ""),
        "rabbitmq_version": overview.get("product_version", ""),
        "warren_version": overview.get("warren_version", ""),
    }


def _sections(found: Mapping[str, Any]) -> Iterator[str]:
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


VERBS: Final = (
    Verb(
        name="cluster_status",
        family=Family.CLUSTER,
        summary="Displays the nodes of the cluster, and which of them are running",
        run=cluster_status,
    ),
)
