"""consume_event_stream: events of the cluster as they happen, one JSON object in a line.

They come by way of `amq.rabbitmq.event`: a queue is bound to it while the verb runs, and removed
with its binding after that, or a minute after a tool that was killed last asked for more.
"""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, json_text
from warren.cli.ctl.verbs import Exit, Family, Kind, Option, Verb, WrongUsage
from warren.model.regular_expressions import InvalidPattern, require_pattern

EVENT_VHOST: Final = "/"
EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
EXPIRES_MS: Final = 60_000
WAITING_MAX: Final = 10_000
EVENTS_AT_ONCE: Final = 500
POLL_S: Final = 0.2


def consume_event_stream(call: Call) -> Answer:
    try:
        wanted = require_pattern(call.text("pattern") or ".*")
    except InvalidPattern as fault:
        raise WrongUsage(f"pattern: {fault.reason}", Exit.DATA) from fault
    seconds = call.integer("duration")
    ends_at = None if seconds is None else time.monotonic() + seconds
    queue = f"warrenctl.events.{uuid.uuid4().hex}"
    arguments = {"x-expires": EXPIRES_MS, "x-max-length": WAITING_MAX}
    body = {"durable": False, "auto_delete": False, "arguments": arguments}
    call.api.put("queues", EVENT_VHOST, queue, body=body)
    try:
        path = ("bindings", EVENT_VHOST, "e", EVENT_EXCHANGE, "q", queue)
        call.api.post(*path, body={"routing_key": "#"})
        call.announce("Streaming events of the cluster ...")
        while ends_at is None or time.monotonic() < ends_at:
            found = _taken(call, queue)
            for event in found:
                if wanted.matches_name(event["event"]) and queue not in str(event):
                    print(json_text(event), flush=True)
            if len(found) < EVENTS_AT_ONCE:
                time.sleep(POLL_S)
    finally:
        call.api.delete("queues", EVENT_VHOST, queue)
    return None


def _taken(call: Call, queue: str) -> list[dict[str, Any]]:
    body = {"count": EVENTS_AT_ONCE, "ackmode": "ack_requeue_false", "encoding": "auto"}
    messages = call.api.post("queues", EVENT_VHOST, queue, "get", body=body)
    return [
        {"event": message["routing_key"], **(message["properties"].get("headers") or {})}
        for message in messages
    ]


VERBS: Final = (
    Verb(
        name="consume_event_stream",
        family=Family.MONITORING,
        summary="Prints events of the cluster as they happen, one JSON object in a line",
        run=consume_event_stream,
        options=(
            Option("duration", "seconds; for ever if absent", Kind.INTEGER, "d"),
            Option("pattern", "regular expression that names of events must match", Kind.TEXT),
        ),
        is_endless=True,
    ),
)
