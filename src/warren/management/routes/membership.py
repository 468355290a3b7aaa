"""/api/warren: what RabbitMQ's operators do to a cluster with rabbitmqctl and rabbitmq-upgrade."""

from __future__ import annotations

from typing import Final

from warren.cluster.members import NotInCluster, StillRunning
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, MONITORS
from warren.management.errors import Refusal, bad_request
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.overview import node_in_path, running_node
from warren.management.views.cluster import show_members
from warren.management.views.overview import cluster_name
from warren.server.sockets import CannotListenError


async def _cluster(call: Call) -> JsonObject:
    return {"name": cluster_name(call.node), "members": show_members(call.node)}


async def _forget(call: Call) -> JsonObject:
    name = call.parts["member"]
    try:
        if name == call.node.config.name:
            raise StillRunning(name)
        if call.node.cluster is None:
            raise NotInCluster
        queues = await call.node.cluster.membership.forget(name)
    except NotInCluster as error:
        raise Refusal(400, "not_a_cluster_node", str(error)) from None
    except StillRunning:
        raise Refusal(
            400,
            "node_is_running",
            f"RabbitMQ on node {name} must be stopped before it can be removed",
        ) from None
    return {"queues_deleted": queues}


async def _maintain(call: Call) -> None:
    is_drained = (await call.body()).boolean("drained", True)
    if is_drained:
        await call.node.maintenance.drain()
        return
    try:
        await call.node.maintenance.revive()
    except CannotListenError as error:
        raise Refusal(503, "unavailable", str(error)) from None


async def _reset(call: Call) -> None:
    """The answer is on its way before the node stops."""
    is_forced = (await call.body()).boolean("force", False)
    if call.node.on_reset_wanted is None:
        raise bad_request("this node cannot be reset from here")
    await call.node.maintenance.retire(is_forced)
    call.node.context.clock.call_later(0, call.node.on_reset_wanted)


RESOURCES: Final = (
    Resource(path="/warren/cluster", rule=MONITORS, get=_cluster),
    Resource(path="/warren/cluster/members/{member}", rule=ADMINISTRATORS, delete=_forget),
    Resource(
        path="/warren/nodes/{node}/maintenance",
        rule=ADMINISTRATORS,
        exists=running_node,
        put=_maintain,
        node_of=node_in_path,
    ),
    Resource(
        path="/warren/nodes/{node}/reset",
        rule=ADMINISTRATORS,
        exists=running_node,
        post=_reset,
        node_of=node_in_path,
    ),
)
