"""/api/overview and /api/nodes: what there is, how much of it, and how it is doing."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG, MONITORS, visible_vhosts
from warren.management.errors import bad_request
from warren.management.json import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.sorting import in_slices
from warren.management.views.channels import consumers_of
from warren.management.views.history import Past, with_samples
from warren.management.views.nodes import show_memory, show_node
from warren.management.views.overview import show_contexts, show_listeners, show_versions
from warren.queues.queue import Queue

_COUNTED_AT_ONCE_MAX: Final = 2_000


async def _overview(call: Call) -> JsonObject:
    if not call.caller.is_monitor:
        return {**show_versions(call.node), **await _own_totals(call)}
    node, statistics = call.node, call.node.statistics
    vhosts = list(call.broker.vhosts.values())
    connections = node.open_connections()
    rates, lengths = _past(call, "msg_rates"), _past(call, "lengths")
    return {
        **show_versions(node),
        "churn_rates": with_samples(statistics.churn(), rates),
        "contexts": show_contexts(node),
        "listeners": show_listeners(node),
        "message_stats": with_samples(statistics.totals(), rates),
        "node": node.config.name,
        "object_totals": {
            "channels": sum(len(connection.channels) for connection in connections),
            "connections": len(connections),
            "consumers": sum(len(consumers_of(connection)) for connection in connections),
            "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
            "queues": sum(len(vhost.queues) for vhost in vhosts),
        },
        "queue_totals": with_samples(statistics.queue_totals(), lengths),
    }


def _past(call: Call, kind: str) -> Past | None:
    """What is to be told of the past: so many seconds of it, in steps of so many."""
    age_s, increment_s = (call.query.get(f"{kind}_{what}") for what in ("age", "incr"))
    if age_s is None or increment_s is None:
        return None
    if not all(n.isascii() and n.isdigit() and 0 < len(n) < 7 for n in (age_s, increment_s)):
        raise bad_request(["not_integer", f"{kind}_age"])
    statistics = call.node.statistics
    return lambda name: statistics.history(name, int(age_s), int(increment_s))


async def _own_totals(call: Call) -> JsonObject:
    """For somebody who may not look at the whole node: what is theirs."""
    vhosts = list(visible_vhosts(call))
    connections = [c for c in call.node.open_connections() if c.user.name == call.user.name]
    queues = [queue for vhost in vhosts for queue in vhost.queues_here()]
    ready = unacknowledged = 0
    async for part in in_slices(queues, _COUNTED_AT_ONCE_MAX):
        ready += sum(queue.message_count for queue in part)
        unacknowledged += sum(queue.backing.unacked_count for queue in part)
    counts = {
        "messages": ready + unacknowledged,
        "messages_ready": ready,
        "messages_unacknowledged": unacknowledged,
    }
    return {
        "churn_rates": call.node.statistics.churn(),
        "message_stats": {},
        "object_totals": {
            "channels": sum(len(connection.channels) for connection in connections),
            "connections": len(connections),
            "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
            "queues": len(queues),
        },
        "queue_totals": counts | {f"{name}_details": {"rate": 0.0} for name in counts},
    }


def is_this_node(call: Call) -> bool:
    return call.parts["node"] == call.node.config.name


async def _nodes(call: Call) -> Response:
    order = attrgetter("config.name")
    return await Listing([call.node], show_node, order, is_paged=False).respond(call)


async def _node(call: Call) -> JsonObject:
    return show_node(call.node)


async def _memory(call: Call) -> JsonObject:
    return {"memory": show_memory(call.node, await _queue_bytes(call))}


async def _relative_memory(call: Call) -> JsonObject:
    """In per cent."""
    memory = show_memory(call.node, await _queue_bytes(call))
    total = max(1, memory.pop("total")["rss"])
    del memory["strategy"]
    shares = {name: -(-100 * used // total) for name, used in memory.items()}
    return {"memory": {"total": 100, **shares}}


async def _queue_bytes(call: Call) -> int:
    """Bodies of messages that are in memory."""
    queues: list[Queue] = [q for v in call.broker.vhosts.values() for q in v.queues_here()]
    total = 0
    async for part in in_slices(queues, _COUNTED_AT_ONCE_MAX):
        total += sum(queue.backing.ready_bytes for queue in part)
    return total


RESOURCES: Final = (
    Resource(path="/overview", rule=ANY_TAG, get=_overview),
    Resource(path="/nodes", rule=MONITORS, get=_nodes),
    Resource(path="/nodes/{node}", rule=MONITORS, exists=is_this_node, get=_node),
    Resource(path="/nodes/{node}/memory", rule=MONITORS, exists=is_this_node, get=_memory),
    Resource(
        path="/nodes/{node}/memory/relative",
        rule=MONITORS,
        exists=is_this_node,
        get=_relative_memory,
    ),
)
