"""/api/warren/redundancy, and health checks of it: members, queues and copies that are missing."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG, visible_vhosts
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.health import OK, check, failed
from warren.management.views.redundancy import (
    members_down,
    members_unreachable,
    show_redundancy,
)

_DOWN: Final = "Members of the cluster are down or cannot be reached"
_UNAVAILABLE: Final = "Queues are down: no running node is their master"
_LACKING: Final = "Queues have fewer synchronised copies than wanted"
_DRAINED: Final = "The node is in maintenance mode"


async def _show(call: Call) -> JsonObject:
    """Show queues to whoever may list them, and members to monitors."""
    vhosts = {vhost.name for vhost in visible_vhosts(call)}
    return await show_redundancy(call.node, vhosts, call.caller.is_monitor)


async def _members_running(call: Call) -> JsonObject | Response:
    down, unreachable = members_down(call.node), members_unreachable(call.node)
    if down or unreachable:
        return failed(_DOWN, down=down, unreachable=unreachable)
    return OK


async def _queues_available(call: Call) -> JsonObject | Response:
    return await _checked(call, is_down_only=True)


async def _copies_present(call: Call) -> JsonObject | Response:
    return await _checked(call, is_down_only=False)


async def _checked(call: Call, is_down_only: bool) -> JsonObject | Response:
    """Check the queues of all virtual hosts, as the other checks do, and list the first ones."""
    shown = await show_redundancy(call.node, call.broker.vhosts.keys(), is_monitor=False)
    count = shown["queues_down"] + (0 if is_down_only else shown["queues_lacking_copies"])
    if not count:
        return OK
    listed = [q for q in shown["queues"] if q["state"] == "down" or not is_down_only]
    return failed(_UNAVAILABLE if is_down_only else _LACKING, count=count, queues=listed)


async def _in_service(call: Call) -> JsonObject | Response:
    return failed(_DRAINED) if call.node.maintenance.is_drained else OK


RESOURCES: Final = (
    Resource(path="/warren/redundancy", rule=ANY_TAG, get=_show),
    check("all-members-running", _members_running),
    check("all-queues-available", _queues_available),
    check("all-copies-present", _copies_present),
    check("is-in-service", _in_service),
)
