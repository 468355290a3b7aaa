"""/api/overview and /api/nodes: what there is, how much of it, and how it is doing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.responses import Response

from warren.management.call import Call
from warren.management.caller import ANY_TAG, MONITORS, visible_vhosts
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.cluster.sums import answers_of_all, extend_past, total_overview
from warren.management.errors import bad_request
from warren.management.json_types import JsonObject
from warren.management.resource import Handler, Resource
from warren.management.sorting import in_slices
from warren.management.views.channels import consumers_of
from warren.management.views.history import Past, show_sample, with_samples
from warren.management.views.nodes import show_memory, show_node, show_node_down
from warren.management.views.overview import show_contexts, show_listeners, show_versions
from warren.management.views.redundancy import members_of
from warren.queues.queue import Queue

_COUNTED_AT_ONCE_MAX: Final = 2_000
# What of a node has a past, with the details of it.
_FOLLOWED: Final = ("mem_used", "disk_free")
_HISTORY_S: Final = 600
_HISTORY_STEP_S: Final = 5


async def _overview(call: Call) -> JsonObject:
    """Return the overview of all nodes, or of the one that the query names."""
    own = await _overview_here(call)
    if call.inquiry is not None or "node" in call.query:
        return own
    answers = await answers_of_all(call)
    total = total_overview(own, answers)
    # Every node knows all queues, also those that are down.
    vhosts = call.broker.vhosts.values() if call.caller.is_monitor else visible_vhosts(call)
    total["object_totals"]["queues"] = sum(len(vhost.queues) for vhost in vhosts)
    counted, members = 1 + len(answers), len(members_of(call.node))
    return {**total, "nodes_counted": counted, "nodes_total": max(counted, members)}


async def _overview_here(call: Call) -> JsonObject:
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
            "queues": sum(len(vhost.queues_here()) for vhost in vhosts),
        },
        "queue_totals": with_samples(statistics.queue_totals(), lengths),
    }


def _past(call: Call, kind: str) -> Past | None:
    """Return the past that is asked for: of one node if the query names it, else of all."""
    span = _span(call, kind)
    if span is None:
        return None
    statistics = call.node.statistics
    is_alone = call.node.cluster is None
    is_of_one = is_alone or "node" in call.query or kind == "node_stats"
    history = statistics.history if is_of_one else statistics.history_of_all
    return lambda name: history(name, *span)


def _span(call: Call, kind: str) -> tuple[int, int] | None:
    """Return how many seconds of the past are wanted, in steps of how many."""
    age_s, increment_s = (call.query.get(f"{kind}_{what}") for what in ("age", "incr"))
    if age_s is None or increment_s is None:
        return None
    if not all(n.isascii() and n.isdigit() and 0 < len(n) < 7 for n in (age_s, increment_s)):
        raise bad_request(["not_integer", f"{kind}_age"])
    return int(age_s), int(increment_s)


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


def running_node(call: Call) -> bool:
    """For what only the node itself can do."""
    return call.parts["node"] in (call.node.config.name, *call.peers.names)


def known_node(call: Call) -> bool:
    """For what can be said of a member that is down, too: see `is_down`."""
    return running_node(call) or call.parts["node"] in nodes_down(call)


def node_in_path(call: Call) -> str:
    return call.parts["node"]


def node_in_query(call: Call) -> str:
    """For what each node answers for itself: `?node=` names another one that is asked."""
    return call.query.get("node", call.node.config.name)


def queried_node_runs(call: Call) -> bool:
    return node_in_query(call) in (call.node.config.name, *call.peers.names)


def is_down(call: Call) -> bool:
    """A node that lives answers for itself."""
    return call.parts["node"] != call.node.config.name


def nodes_down(call: Call) -> set[str]:
    cluster = call.node.cluster
    members = () if cluster is None else cluster.membership.members
    return {*members} - {call.node.config.name, *call.peers.names}


async def _nodes(call: Call) -> Response:
    here = call.node.config.name

    def silent(answering: Collection[str]) -> list[str]:
        return sorted({*call.peers.names, *nodes_down(call)} - {*answering})

    past = _past(call, "node_stats")
    return await SpreadListing[str](
        [here],
        lambda name: _shown(call, past) if name == here else show_node_down(name),
        lambda name: (name,),
        {"name": lambda name: name},
        is_paged=False,
        elsewhere=silent,
    ).respond(call)


async def _node(call: Call) -> JsonObject:
    if is_down(call):
        return show_node_down(call.parts["node"])
    return _shown(call, _past(call, "node_stats"))


def _shown(call: Call, past: Past | None) -> JsonObject:
    shown = show_node(call.node)
    followed = {name: shown[name] for name in shown if name.startswith(_FOLLOWED)}
    return shown | with_samples(followed, past)


async def _memory(call: Call) -> JsonObject:
    if is_down(call):
        return {"memory": "not_available"}
    return {"memory": show_memory(call.node, await _queue_bytes(call))}


async def _relative_memory(call: Call) -> JsonObject:
    """In per cent."""
    if is_down(call):
        return {"memory": "not_available"}
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


async def _history(call: Call) -> JsonObject:
    """Show memory and free disk space of all nodes, running or not, as this node heard it.

    Other nodes tell of the time before this one started.
    """
    span = _span(call, "node_stats") or (_HISTORY_S, _HISTORY_STEP_S)
    known: JsonObject = {
        node: {name: [show_sample(s) for s in samples] for name, samples in figures.items()}
        for node, figures in call.node.statistics.machines(*span).items()
    }
    for other in await answers_of_all(call) if call.inquiry is None else ():
        for node, figures in other.items():
            for name, samples in figures.items():
                extend_past(known.setdefault(node, {}).setdefault(name, []), samples)
    return known


def _of_node(path: str, handler: Handler) -> Resource:
    return Resource(path=path, rule=MONITORS, exists=known_node, get=handler, node_of=node_in_path)


RESOURCES: Final = (
    Resource(
        path="/overview",
        rule=ANY_TAG,
        exists=queried_node_runs,
        get=_overview,
        node_of=node_in_query,
    ),
    Resource(path="/nodes", rule=MONITORS, get=_nodes),
    Resource(path="/warren/history/nodes", rule=MONITORS, get=_history),
    _of_node("/nodes/{node}", _node),
    _of_node("/nodes/{node}/memory", _memory),
    _of_node("/nodes/{node}/memory/relative", _relative_memory),
)
