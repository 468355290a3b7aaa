"""Listeners of a node: which accept clients, which are suspended, and suspending them.

Suspended are those for AMQP, as by `suspend_listeners` or in maintenance; connections that are open
stay. The HTTP API goes on: it is where the node is told to resume.
"""

from __future__ import annotations

from typing import Final

from warren.cluster.node_states import Listener
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.errors import Refusal
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.overview import node_in_path, running_node
from warren.server.listening import listeners_of, suspended_listeners_of
from warren.server.sockets import CannotListenError


async def _show(call: Call) -> JsonObject:
    return {
        "active": [_shown(listener) for listener in listeners_of(call.node)],
        "suspended": [_shown(listener) for listener in suspended_listeners_of(call.node)],
    }


def _shown(listener: Listener) -> JsonObject:
    return {
        "protocol": listener.protocol,
        "ip_address": listener.ip_address,
        "port": listener.port,
    }


async def _change(call: Call) -> None:
    is_suspended = (await call.body()).boolean("suspended", True)
    try:
        await call.node.maintenance.suspend_listeners(is_suspended)
    except CannotListenError as error:
        raise Refusal(503, "unavailable", str(error)) from None


RESOURCES: Final = (
    Resource(
        path="/warren/nodes/{node}/listeners",
        rule=ADMINISTRATORS,
        exists=running_node,
        get=_show,
        put=_change,
        node_of=node_in_path,
    ),
)
