"""/api/warren/stream-names/V: the names of a virtual host's streams, wherever their masters are.

A reader of all streams whose names match a pattern asks this before every batch, so nothing but
names is told, which every node of a cluster knows without asking another. Streams that the caller
may not read are left out: to be refused one of them would end the query.
"""

from __future__ import annotations

from typing import Final

from warren.management.call import Call
from warren.management.caller import VHOST_USERS
from warren.management.declaring import is_readable
from warren.management.json_types import JsonObject
from warren.management.resource import Resource
from warren.queues.settings import QueueType, queue_type_of


async def _names(call: Call) -> JsonObject:
    records = [queue.record for queue in call.vhost.queues.values()]
    streams = [r for r in records if queue_type_of(r.arguments) is QueueType.STREAM]
    return {"names": sorted(r.name for r in streams if is_readable(call, r.name))}


RESOURCES: Final = (
    Resource(
        path="/warren/stream-names/{vhost}",
        rule=VHOST_USERS,
        exists=lambda call: call.find_vhost() is not None,
        get=_names,
    ),
)
