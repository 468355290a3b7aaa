"""The cluster as JSON: its members, running or not, as every node knows them without asking."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from warren import __version__
from warren.cluster.node_states import Listener, NodeState
from warren.management.json_types import JsonObject
from warren.server.listening import listeners_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warren.server.node import Node


def show_members(node: Node) -> list[JsonObject]:
    """By name. Of one that is not running nothing is known but that it is a member."""
    cluster = node.cluster
    own = _show_running(node, node.config.name, __version__, _own_state(node))
    if cluster is None:
        return [own]
    shown = {name: _show_stopped(name) for name in cluster.membership.members}
    for name, session in cluster.view.sessions.items():
        state = cluster.states.others.get(name, NodeState())
        shown[name] = _show_running(node, name, session.version, state)
    shown[node.config.name] = own
    return [shown[name] for name in sorted(shown)]


def _own_state(node: Node) -> NodeState:
    return NodeState(
        is_drained=node.maintenance.is_drained,
        listeners=tuple(listeners_of(node)),
        runtime=platform.python_version(),
    )


def _show_running(node: Node, name: str, version: str, state: NodeState) -> JsonObject:
    alarms = (alarm for alarm in node.alarms.board.alarms if alarm.node == name)
    return {
        "name": name,
        "running": True,
        "version": version,
        "runtime": state.runtime,
        "drained": state.is_drained,
        "alarms": [alarm.resource.value for alarm in alarms],
        "listeners": _show_listeners(state.listeners),
    }


def _show_listeners(listeners: Iterable[Listener]) -> list[JsonObject]:
    return [
        {"protocol": known.protocol, "ip_address": known.ip_address, "port": known.port}
        for known in listeners
    ]


def _show_stopped(name: str) -> JsonObject:
    return {
        "name": name,
        "running": False,
        "version": None,
        "runtime": None,
        "drained": False,
        "alarms": [],
        "listeners": [],
    }
