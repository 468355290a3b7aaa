"""POST exchanges/V/X/publish and queues/V/Q/get: messages by hand, one request at a time.

Both act as a client of the caller's would, permissions and all (`server/direct.py`). Getting is not
a way to consume: everything of one request is held until the last is there, so it is bounded.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Final

from warren.management.arguments import table_from_json
from warren.management.bodies import PUBLISH_BYTES_MAX, Body
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, VHOST_USERS
from warren.management.cluster.masters import sync_of
from warren.management.errors import bad_request, not_authorised, not_found
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.routes.policy_reports import has_queue
from warren.management.routes.queues import find_queue, master_of_queue
from warren.management.views.messages import show_message
from warren.model.errors import AmqpError, precondition_failed
from warren.model.limits import SHORTSTR_BYTES_MAX
from warren.queues.boundary import answer_of
from warren.server.direct import DirectConnection, PublishRejected
from warren.wire.codec import Message, PropertyBlock, QueuedMessage
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key

GOT_MESSAGES_MAX: Final = 10_000
GOT_BYTES_MAX: Final = 134_217_728
# So much is fetched or shown before others have their turn.
AT_ONCE_MAX: Final = 50
_ACK_MODES: Final = frozenset(
    {"ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false"}
)
_INTEGER_MAX: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}
_DELIVERY_MODES: Final = frozenset({1, 2})
_SYNC: Final = "sync"
_CANCEL_SYNC: Final = "cancel_sync"


@contextmanager
def acting(call: Call) -> Iterator[DirectConnection]:
    """A connection of the caller's to the virtual host in the path, for as long as it takes."""
    connection = DirectConnection(call.node.context, call.user, call.vhost_name or "")
    try:
        yield connection
    except AmqpError as error:
        if error.name == "NOT_FOUND":
            raise not_found(error.reply_text) from None
        if error.name == "ACCESS_REFUSED":
            raise not_authorised(error.reply_text) from None
        raise _refused(error) from None
    finally:
        connection.close()


def _refused(error: AmqpError) -> Exception:
    return bad_request(f"{error.code} {error.reply_text}")


async def _publish(call: Call) -> JsonObject:
    body = await call.body(PUBLISH_BYTES_MAX)
    routing_key, members, payload, encoding = body.require(
        "routing_key", "properties", "payload", "payload_encoding"
    )
    route_key = make_route_key(call.exchange_name(), _routing_key(routing_key))
    octets = _decoded(payload, encoding)
    if not isinstance(members, dict):
        raise bad_request(["not_an_object", "properties"])
    with acting(call) as connection:
        try:
            properties = _properties(members)
            message = Message(route_key, PropertyBlock(encode_properties(properties)), octets)
            return {"routed": await connection.publish(message)}
        except PublishRejected:
            raise bad_request("rejected Unable to publish message. Check queue limits.") from None
        except AmqpError as error:
            # Publishing has no answer that an error could be the answer to.
            raise _refused(error) from None


def _routing_key(value: Json) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise bad_request(["not_string", "routing_key"])
    return _short("routing_key", text)


def _short(name: str, text: str) -> str:
    if len(text.encode(errors="surrogatepass")) > SHORTSTR_BYTES_MAX:
        raise bad_request(["too_long", name])
    return text


def _decoded(payload: Json, encoding: Json) -> bytes:
    if encoding not in ("string", "base64"):
        raise bad_request(["unsupported_encoding", encoding])
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode(errors="surrogatepass")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload]) from None


def _properties(members: JsonObject) -> Properties:
    """Names that are no property's are passed over, as RabbitMQ does."""
    properties = Properties()
    for field in fields(Properties):
        if field.name in members:
            setattr(properties, field.name, _property(field.name, members[field.name]))
    mode = properties.delivery_mode
    if mode is not None and mode not in _DELIVERY_MODES:
        raise precondition_failed(f"invalid message: {{delivery_mode_unknown,{mode}}}")
    return properties


def _property(name: str, value: Json) -> Json:
    if name == "headers":
        if value == []:
            return table_from_json({})
        if not isinstance(value, dict):
            raise bad_request(["not_an_object", name])
        return table_from_json(value)
    if name in _INTEGER_MAX:
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not 0 <= value <= _INTEGER_MAX[name]:
            raise bad_request(["not_int", name])
        return value
    if not isinstance(value, str):
        raise bad_request(["not_string", name])
    return _short(name, value)


async def _get(call: Call) -> Json:
    body = await call.body()
    count, ack_mode, encoding = body.require("count", "ackmode", "encoding")
    wanted = _whole_number(count)
    truncate = _truncation(body)
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    if ack_mode not in _ACK_MODES:
        raise bad_request(["unknown_ackmode", ack_mode])
    with acting(call) as connection:
        got = await _fetch(connection, call.parts["queue"], wanted)
        shown = []
        for number, (queued, left) in enumerate(got):
            if number % AT_ONCE_MAX == AT_ONCE_MAX - 1:
                await asyncio.sleep(0)
            shown.append({"message_count": left, **show_message(queued, str(encoding), truncate)})
        await _settle(connection, str(ack_mode))
    return shown


async def _fetch(
    connection: DirectConnection, queue: str, wanted: int
) -> list[tuple[QueuedMessage, int]]:
    """Messages, each with how many were left in the queue then. -1 means all, within reason."""
    got: list[tuple[QueuedMessage, int]] = []
    room = GOT_BYTES_MAX
    if wanted < 0 or wanted > GOT_MESSAGES_MAX:
        wanted = GOT_MESSAGES_MAX
    while len(got) < wanted and room > 0:
        queued = await connection.get(queue)
        if queued is None:
            break
        counts = await answer_of(connection.vhost.queues[queue].counts())
        got.append((queued, counts.ready))
        room -= len(queued.message.body)
        if len(got) % AT_ONCE_MAX == 0:
            await asyncio.sleep(0)
    return got


async def _settle(connection: DirectConnection, ack_mode: str) -> None:
    """By its name `ack_requeue_true` acknowledges; but what is to be requeued never was."""
    if ack_mode.endswith("requeue_true"):
        await connection.nack(requeue=True)
    elif ack_mode.startswith("reject"):
        await connection.nack(requeue=False)
    else:
        connection.ack()


def _whole_number(value: Json) -> int:
    """A number, also as text; of 1.5 RabbitMQ takes the whole part, too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise bad_request(["not_integer", value])
    try:
        return int(value)
    except (ValueError, OverflowError):
        raise bad_request(["not_integer", str(value)]) from None


def _truncation(body: Body) -> int | None:
    if "truncate" not in body:
        return None
    truncate = _whole_number(body.get("truncate"))
    if truncate < 0:
        raise bad_request(["not_integer", truncate])
    return truncate


async def _act(call: Call) -> None:
    """RabbitMQ says no more than this, either: what comes of it is to be seen at the queue."""
    (action,) = (await call.body()).require("action")
    if action not in (_SYNC, _CANCEL_SYNC):
        raise bad_request(["unknown", action])
    queue = find_queue(call)
    sync = None if queue is None else sync_of(queue, call.node)
    if sync is None:
        return
    if action == _SYNC:
        sync.synchroniser.start()
    else:
        sync.synchroniser.cancel()


RESOURCES: Final = (
    Resource(
        path="/exchanges/{vhost}/{exchange}/publish",
        rule=VHOST_USERS,
        is_change=False,
        post=_publish,
    ),
    Resource(
        path="/queues/{vhost}/{queue}/get",
        rule=VHOST_USERS,
        is_change=False,
        post=_get,
        node_of=master_of_queue,
    ),
    Resource(
        path="/queues/{vhost}/{queue}/actions",
        rule=ADMINISTRATORS,
        exists=has_queue,
        post=_act,
        node_of=master_of_queue,
    ),
)
