"""/api/warren/queues/V/Q/ring: who replicates a queue, in the order of the ring, and how far."""

from __future__ import annotations

from typing import Final

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.errors import no_such_object
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.management.routes.policy_reports import has_queue
from warren.management.routes.queues import find_queue, master_of_queue
from warren.management.views.copies import show_ring


async def _show(call: Call) -> JsonObject:
    queue = find_queue(call)
    if queue is None:
        raise no_such_object()
    return show_ring(queue, call.node)


async def _tell_story(call: Call) -> JsonObject:
    """Tell what this node has heard and decided about the queue's copies."""
    queue = find_queue(call)
    if queue is None:
        raise no_such_object()
    cluster, name = call.node.cluster, (queue.record.vhost, queue.record.name)
    entries = [] if cluster is None else cluster.node.stories.of(name)
    return {
        "node": call.node.config.name,
        "entries": [{"at_ms": each.at_ms, "text": each.text} for each in entries],
    }


RESOURCES: Final = (
    Resource(
        path="/warren/queues/{vhost}/{queue}/story",
        rule=VHOST_USERS,
        get=_tell_story,
    ),
    Resource(
        path="/warren/queues/{vhost}/{queue}/ring",
        rule=VHOST_USERS,
        exists=has_queue,
        get=_show,
        node_of=master_of_queue,
    ),
)
