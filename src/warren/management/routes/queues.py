"""/api/queues: queues, and what is in them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.management.arguments import table_from_json
from warren.management.call import Call
from warren.management.caller import VHOST_USERS, visible_vhosts
from warren.management.declaring import declare_queue, delete_queue, readable_queue
from warren.management.errors import bad_request, no_such_object
from warren.management.json import Json, JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.sorting import in_slices
from warren.management.views.channels import consumers_of, show_consumer
from warren.management.views.queues import show_queue
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.server.connection import AmqpConnection

NAME_BYTES_MAX: Final = 255
CONNECTIONS_AT_ONCE_MAX: Final = 500


_KEYS: Final[dict[str, Callable[[Queue], Json]]] = {
    "auto_delete": attrgetter("record.auto_delete"),
    "consumers": attrgetter("consumer_count"),
    "durable": attrgetter("record.durable"),
    "exclusive": attrgetter("record.exclusive"),
    "messages": lambda queue: queue.backing.length + queue.backing.unacked_count,
    "messages_ready": attrgetter("backing.length"),
    "messages_unacknowledged": attrgetter("backing.unacked_count"),
    "message_bytes_ready": attrgetter("backing.ready_bytes"),
    "name": attrgetter("record.name"),
    "state": lambda queue: "running",
    "type": attrgetter("settings.queue_type.value"),
    "vhost": attrgetter("record.vhost"),
}


def find_queue(call: Call) -> Queue | None:
    vhost = call.find_vhost()
    queue = None if vhost is None else vhost.queues.get(call.parts["queue"])
    return queue if isinstance(queue, Queue) else None


async def _list(call: Call) -> Response:
    queues = [queue for vhost in visible_vhosts(call) for queue in vhost.queues_here()]
    return await Listing(
        queues,
        lambda queue: show_queue(queue, call.node),
        attrgetter("record.vhost", "record.name"),
        _KEYS,
    ).respond(call)


async def _show(call: Call) -> JsonObject:
    queue = find_queue(call)
    if queue is None:
        raise no_such_object()
    # Who publishes into it and who gets from it, by channel, is what RabbitMQ's detailed rates are.
    shown = {**show_queue(queue, call.node), "deliveries": [], "incoming": []}
    shown["consumer_details"] = []
    is_consumed, owner = queue.consumer_count > 0, queue.record.owner
    if not is_consumed and owner is None:
        return shown
    async for connections in in_slices(call.node.open_connections(), CONNECTIONS_AT_ONCE_MAX):
        for connection in connections:
            if connection.connection_id == owner:
                shown["owner_pid_details"] = _show_owner(connection)
            shown["consumer_details"] += _consumers(call, queue, connection)
    return shown


def _consumers(call: Call, queue: Queue, connection: AmqpConnection) -> list[JsonObject]:
    if connection.vhost.name != queue.record.vhost:
        return []
    places = (place for place in consumers_of(connection) if place.consumer.queue is queue)
    return [show_consumer(call.node, place) for place in places]


def _show_owner(connection: AmqpConnection) -> JsonObject:
    details = connection.details
    return {
        "name": details.name,
        "peer_host": details.peer.host,
        "peer_port": details.peer.port,
    }


async def _put(call: Call) -> None:
    name = call.parts["queue"]
    if len(name.encode()) > NAME_BYTES_MAX:
        raise bad_request(
            f"queue should be less than {NAME_BYTES_MAX} bytes, actually was {len(name.encode())}\n"
        )
    vhost, body = call.vhost, await call.body()
    node = body.text("node", call.node.config.name)
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


async def _delete(call: Call) -> None:
    name = call.parts["queue"]
    await delete_queue(call, name, call.flag("if-unused"), call.flag("if-empty"))


async def _purge(call: Call) -> None:
    readable_queue(call, call.parts["queue"]).purge()


def queue_exists(call: Call) -> bool:
    return find_queue(call) is not None


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
    ),
    Resource(
        path="/queues/{vhost}/{queue}/contents",
        rule=VHOST_USERS,
        exists=queue_exists,
        delete=_purge,
    ),
)
