"""/api/queues: queues, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from warren.flow.states import RUNNING
from warren.management.arguments import table_from_json
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.cluster.consumers import consumers_everywhere
from warren.management.cluster.forwarding import answer_of_master
from warren.management.cluster.masters import is_between_masters, master_node_of
from warren.management.cluster.spread_listing import SpreadListing
from warren.management.declaring import declare_queue, delete_queue, readable_queue
from warren.management.errors import BetweenMasters, bad_request, no_such_object
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.sorting import LACKING
from warren.management.views.copies import group_of, last_master_of
from warren.management.views.policies import policy_of_queue
from warren.management.views.queues import DOWN, show_any_queue, show_queue
from warren.management.views.redundancy import standing_of
from warren.model.counters import MESSAGE_COUNTERS
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue, answer_of
from warren.queues.queue import Queue
from warren.server.connection import AmqpConnection
from warren.statistics.figures import DELIVERED

if TYPE_CHECKING:
    from warren.server.node import Node

NAME_BYTES_MAX: Final = 255
# More copies than any queue lacks: sorted by what is missing, queues that are down come first.
_DOWN_FIRST: Final = 1_000_000


def _figure(path: str) -> Callable[[AbstractQueue], Json]:
    """Return a figure of a queue that only its master knows."""
    get = attrgetter(path)
    return lambda queue: get(queue) if isinstance(queue, Queue) else LACKING


_KEYS: Final[dict[str, Callable[[AbstractQueue], Json]]] = {
    "auto_delete": attrgetter("record.auto_delete"),
    "consumers": _figure("consumer_count"),
    "durable": attrgetter("record.durable"),
    "exclusive": attrgetter("record.exclusive"),
    "messages": lambda queue: _messages(queue) if isinstance(queue, Queue) else LACKING,
    "messages_ready": _figure("backing.length"),
    "messages_unacknowledged": _figure("backing.unacked_count"),
    "message_bytes_ready": _figure("backing.ready_bytes"),
    "name": attrgetter("record.name"),
    "state": lambda queue: RUNNING if isinstance(queue, Queue) else DOWN,
    "type": attrgetter("settings.queue_type.value"),
    "vhost": attrgetter("record.vhost"),
}


def _rate(*names: str) -> Callable[[AbstractQueue], Json]:
    """How fast these counters of it grow, together."""
    places = [MESSAGE_COUNTERS.index(name) for name in names]

    def rate(queue: AbstractQueue) -> Json:
        rates = queue.counters.rates if isinstance(queue, Queue) else None
        return LACKING if rates is None else sum([rates[place] for place in places])

    return rate


# What lists of thousands are sorted by, and would otherwise take the view of each of them.
_RATES: Final[dict[str, Callable[[AbstractQueue], Json]]] = {
    "message_stats.publish_details.rate": _rate("publish"),
    "message_stats.deliver_get_details.rate": _rate(*DELIVERED),
}


def _keys(node: Node) -> dict[str, Callable[[AbstractQueue], Json]]:
    """Return the sort keys that only the node knows. Two are there to be sorted by only."""
    here, now_ms = node.config.name, node.context.clock.now_ms()

    def master(queue: AbstractQueue) -> Json:
        return here if isinstance(queue, Queue) else last_master_of(queue.record, node)

    def policy(queue: AbstractQueue) -> Json:
        return policy_of_queue(queue.record, node)["policy"]

    def head_age(queue: AbstractQueue) -> Json:
        return queue.head_age_ms(now_ms) or 0 if isinstance(queue, Queue) else LACKING

    def missing(queue: AbstractQueue) -> Json:
        standing = standing_of(queue.record, node)
        return standing.missing + (_DOWN_FIRST if standing.is_down else 0)

    of_node: dict[str, Callable[[AbstractQueue], Json]] = {
        "node": master,
        "policy": policy,
        "head_message_age": head_age,
        "missing_copies": missing,
    }
    return {**of_node, **_KEYS, **_RATES}


def _messages(queue: Queue) -> int:
    return queue.backing.length + queue.backing.unacked_count


def find_queue(call: Call) -> AbstractQueue | None:
    vhost = call.find_vhost()
    return None if vhost is None else vhost.queues.get(call.parts["queue"])


def master_of_queue(call: Call) -> str:
    """The node that answers; a PUT may declare it anew, which all can do."""
    queue = find_queue(call)
    if queue is None or call.request.method == "PUT":
        return call.node.config.name
    return master_node_of(queue, call.node)


def queue_exists(call: Call) -> bool:
    """One whose master is down is listed, but otherwise is as if it were not there.

    Raises BetweenMasters while another node is about to be its master.
    """
    queue = find_queue(call)
    if queue is None:
        return False
    is_put = call.request.method == "PUT"
    if call.inquiry is not None and not is_put and not isinstance(queue, Queue):
        raise BetweenMasters(queue.record)  # the node that asks has not heard of the new master
    if master_node_of(queue, call.node) in (call.node.config.name, *call.peers.names):
        return True
    if not is_put and is_between_masters(queue, call.node):
        raise BetweenMasters(queue.record)
    return False


async def _list(call: Call) -> Response:
    vhosts, node = list(visible_vhosts(call)), call.node

    def down(answering: Collection[str]) -> list[AbstractQueue]:
        return [
            queue
            for vhost in vhosts
            for queue in vhost.queues.values()
            if not isinstance(queue, Queue) and master_node_of(queue, node) not in answering
            if queue.record.durable or group_of(queue.record, node) is not None
        ]

    return await SpreadListing[AbstractQueue](
        [queue for vhost in vhosts for queue in vhost.queues_here()],
        lambda queue: show_any_queue(queue, call.node),
        attrgetter("record.vhost", "record.name"),
        _keys(node),
        elsewhere=down,
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    queue = find_queue(call)
    if queue is None:
        raise no_such_object()
    if not isinstance(queue, Queue):
        raise BetweenMasters(queue.record)  # this node is about to lead it, or has just done so
    # Who publishes into it and who gets from it, by channel, is what RabbitMQ's detailed rates are.
    shown = {**show_queue(queue, call.node), "deliveries": [], "incoming": []}
    shown["consumer_details"] = []
    is_consumed, owner = queue.consumer_count > 0, queue.record.owner
    if not is_consumed and owner is None:
        return shown
    for connection in call.node.open_connections() if owner is not None else ():
        if connection.connection_id == owner:
            shown["owner_pid_details"] = _show_owner(connection)
    shown["consumer_details"] = await consumers_everywhere(call, queue)
    return shown


def _show_owner(connection: AmqpConnection) -> JsonObject:
    details = connection.details
    return {
        "name": details.name,
        "peer_host": details.peer.host,
        "peer_port": details.peer.port,
    }


async def _put(call: Call) -> Response | None:
    name = call.parts["queue"]
    if len(name.encode()) > NAME_BYTES_MAX:
        raise bad_request(
            f"queue should be less than {NAME_BYTES_MAX} bytes, actually was {len(name.encode())}\n"
        )
    vhost, body = call.vhost, await call.body()
    node = body.text("node", call.node.config.name)
    if node in call.peers.names and call.inquiry is None:
        return await answer_of_master(call, node)
    if node != call.node.config.name:
        raise bad_request(f"Node {node} could not be contacted")
    record = QueueRecord(
        vhost.name,
        name,
        durable=body.boolean("durable", default=False),
        auto_delete=body.boolean("auto_delete", default=False),
        arguments=table_from_json(body.object("arguments")),
        created_by=call.user.name,
    )
    await declare_queue(call, record)
    return None


async def _delete(call: Call) -> None:
    name = call.parts["queue"]
    await delete_queue(call, name, call.flag("if-unused"), call.flag("if-empty"))


async def _purge(call: Call) -> None:
    await answer_of(readable_queue(call, call.parts["queue"]).purge())


RESOURCES: Final = (
    Resource(path="/queues", rule=VHOST_USERS, get=_list),
    Resource(
        path="/queues/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_list,
    ),
    Resource(
        path="/queues/{vhost}/{queue}",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_show,
        put=_put,
        delete=_delete,
        node_of=master_of_queue,
    ),
    Resource(
        path="/queues/{vhost}/{queue}/contents",
        rule=VHOST_USERS,
        exists=queue_exists,
        delete=_purge,
        node_of=master_of_queue,
    ),
)
