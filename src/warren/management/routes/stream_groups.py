"""/api/warren/streams/V/Q/groups: how far groups of readers have come.

    GET    ./groups          all cursors of the stream
    GET    ./groups/G        one of them
    PUT    ./groups/G        {"offset": 17}: everything before 17 is done with
    DELETE ./groups/G

An offset below the one that is set changes nothing, unless the request says `"reset": true`. With
`"retain": true` retention leaves what the group has not read: that fills disks, so to switch it on
or off, or to delete a group that has it, takes the permission to configure the queue, and leaves a
line in the audit. `lost` says how many records were removed before the group had read them.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.stream_groups import GroupCursor, TooManyGroups
from warren.management.audit import audit
from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.declaring import require_configure
from warren.management.errors import bad_request
from warren.management.json_types import Json, JsonObject
from warren.management.listing import json_response
from warren.management.resource import Resource
from warren.management.routes.queues import queue_exists
from warren.management.routes.streams import master_of_stream, stream_of
from warren.management.views.moments import show_moment
from warren.streams.queue import StreamQueue

OFFSET_MAX: Final = 2**63 - 1
NAME_BYTES_MAX: Final = 255


def _place(call: Call) -> tuple[str, str, str]:
    return call.parts["vhost"], call.parts["queue"], call.parts["group"]


def _cursor(call: Call) -> GroupCursor | None:
    vhost, queue, group = _place(call)
    return call.broker.stream_groups.of_stream(vhost, queue).get(group)


def _show(queue: StreamQueue, group: str, cursor: GroupCursor) -> JsonObject:
    log = queue.log
    return {
        "group": group,
        "queue": queue.record.name,
        "vhost": queue.record.vhost,
        "offset": cursor.offset,
        "retain": cursor.retain,
        "updated_at": show_moment(cursor.updated_at_ms),
        "lag": max(0, log.end_offset - max(cursor.offset, log.first_offset)),
        "lost": max(0, log.first_offset - cursor.offset),
    }


async def _list(call: Call) -> Json:
    queue = stream_of(call)
    cursors = call.broker.stream_groups.of_stream(queue.record.vhost, queue.record.name)
    return [_show(queue, group, cursors[group]) for group in sorted(cursors)]


async def _get(call: Call) -> JsonObject:
    cursor = _cursor(call)
    assert cursor is not None, "its existence was asked for"
    return _show(stream_of(call), call.parts["group"], cursor)


async def _put(call: Call) -> Response:
    queue = stream_of(call)
    group = call.parts["group"]
    if not 0 < len(group.encode()) <= NAME_BYTES_MAX:
        raise bad_request(f"a group's name has 1 to {NAME_BYTES_MAX} bytes")
    body = await call.body()
    (offset,) = body.require("offset")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= OFFSET_MAX:
        raise bad_request(["not_offset", offset])
    before = _cursor(call)
    retain = body.boolean("retain", default=before is not None and before.retain)
    is_retention_changed = retain != (before is not None and before.retain)
    if is_retention_changed:
        require_configure(call, queue.record.name)
    try:
        cursor = await call.broker.stream_groups.set(
            _place(call),
            GroupCursor(offset, retain),
            may_go_back=body.boolean("reset", default=False),
        )
    except TooManyGroups as error:
        raise bad_request(str(error)) from None
    if is_retention_changed:
        audit(call, 200)
    return json_response(_show(queue, group, cursor))


async def _delete(call: Call) -> None:
    queue, cursor = stream_of(call), _cursor(call)
    has_retained = cursor is not None and cursor.retain
    if has_retained:
        require_configure(call, queue.record.name)
    await call.broker.stream_groups.delete(*_place(call))
    if has_retained:
        audit(call, 204)


RESOURCES: Final = (
    Resource(
        path="/warren/streams/{vhost}/{queue}/groups",
        rule=VHOST_USERS,
        exists=queue_exists,
        get=_list,
        node_of=master_of_stream,
    ),
    Resource(
        path="/warren/streams/{vhost}/{queue}/groups/{group}",
        rule=VHOST_USERS,
        is_change=False,
        exists=lambda call: queue_exists(call) and _cursor(call) is not None,
        get=_get,
        put=_put,
        delete=_delete,
        node_of=master_of_stream,
    ),
)
