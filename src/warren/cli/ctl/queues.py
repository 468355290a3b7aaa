"""Purging, deleting, synchronising and reading queues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from warren.cli.ctl.api import NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, json_text
from warren.cli.ctl.verbs import Argument, Exit, Family, Kind, Option, Verb, error

SYNC_POLL_S: Final = 0.5
# A day: longer than any queue takes, and still an end.
SYNC_POLLS_MAX: Final = int(86_400 / SYNC_POLL_S)
IDLE_POLLS_MAX: Final = 10
"""Somebody has cancelled it, if nothing comes of it."""
BROWSE_DEFAULT: Final = 10


def purge_queue(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Purging queue '{name}' in vhost '{call.vhost}' ...")
    try:
        call.api.delete("queues", call.vhost, name, "contents")
    except NotFound as absent:
        raise error("not_found") from absent
    return None


def delete_queue(call: Call) -> Answer:
    name = call.arguments[0]
    conditions = [
        text
        for option, text in (("if-empty", "if queue is empty"), ("if-unused", "if queue is unused"))
        if call.flag(option)
    ]
    provided = " and ".join(conditions) + " " if conditions else ""
    call.announce(f"Deleting queue '{name}' on vhost '{call.vhost}' {provided}...")
    queue = call.api.get_or_none("queues", call.vhost, name)
    if queue is None:
        raise error("Queue not found", Exit.USAGE)
    query = {option: "true" for option in ("if-empty", "if-unused") if call.flag(option)}
    try:
        call.api.delete("queues", call.vhost, name, **query)
    except NotFound as gone:
        raise error("Queue not found", Exit.USAGE) from gone
    except Refusal as refusal:
        raise _not_deleted(refusal) from refusal
    ready = queue.get("messages_ready", 0)
    return f"Queue was successfully deleted with {ready} ready messages"


def _not_deleted(refusal: Refusal) -> Exception:
    if "in use" in refusal.reason:
        return error("Queue is in use", Exit.USAGE)
    if "not empty" in refusal.reason:
        return error("Queue is not empty", Exit.USAGE)
    return refusal


def sync_queue(call: Call) -> Answer:
    """Like rabbitmqctl, wait for the end of it."""
    name = call.arguments[0]
    call.announce(f"Synchronising queue '{name}' in vhost '{call.vhost}' ...")
    if _existing(call, name).get("slave_nodes") is None:
        raise error("not_mirrored")
    call.api.post("queues", call.vhost, name, "actions", body={"action": "sync"})
    idle = 0
    for _ in range(SYNC_POLLS_MAX):
        queue = _existing(call, name)
        mirrors = set(queue.get("slave_nodes") or ())
        if queue.get("state") != "syncing":
            idle += 1
            is_synced = mirrors <= set(queue.get("synchronised_slave_nodes") or ())
            if is_synced or idle == IDLE_POLLS_MAX:
                break
        time.sleep(SYNC_POLL_S)
    return None


def cancel_sync_queue(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Stopping synchronising queue '{name}' in vhost '{call.vhost}' ...")
    if _existing(call, name).get("state") != "syncing":
        return "not_syncing"
    call.api.post("queues", call.vhost, name, "actions", body={"action": "cancel_sync"})
    return None


def _existing(call: Call, name: str) -> dict[str, Any]:
    queue: dict[str, Any] | None = call.api.get_or_none("queues", call.vhost, name)
    if queue is None:
        raise error("not_found")
    return queue


def browse_queue(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Browsing queue '{name}' in vhost '{call.vhost}' (nothing is touched) ...")
    query = {
        "offset": str(call.integer("offset") or 0),
        "limit": str(call.integer("limit") or BROWSE_DEFAULT),
    }
    if (wanted := call.text("filter")) is not None:
        query["filter"] = wanted
    try:
        page = call.api.get("warren", "queues", call.vhost, name, "browse", **query)
    except NotFound as absent:
        _existing(call, name)
        raise error(f"{call.target.url} cannot browse: it is no Warren node") from absent
    messages = page if isinstance(page, list) else page["items"]
    text = "\n\n".join("\n".join(_message_lines(message)) for message in messages)
    return Document(text or "(no messages)", page)


def _message_lines(message: dict[str, Any]) -> Iterator[str]:
    position = message.get("position", message.get("offset", ""))
    yield f"#{position} {message['exchange'] or '(default)'} -> {message['routing_key']}"
    for name, value in dict(message["properties"] or {}).items():
        yield f"  {name}: {value if isinstance(value, str) else json_text(value)}"
    yield f"  {message['payload_bytes']} bytes ({message['payload_encoding']}):"
    yield message["payload"]


_QUEUE: Final = Argument("queue", "name of the queue")

VERBS: Final = (
    Verb(
        name="purge_queue",
        family=Family.QUEUES,
        summary="Purges a queue (removes all messages in it)",
        run=purge_queue,
        arguments=(_QUEUE,),
        is_scoped=True,
    ),
    Verb(
        name="delete_queue",
        family=Family.QUEUES,
        summary="Deletes a queue",
        run=delete_queue,
        arguments=(Argument("queue_name", "name of the queue"),),
        options=(
            Option("if-empty", "only if it has no messages ready for delivery", short="e"),
            Option("if-unused", "only if it has no consumers", short="u"),
        ),
        is_scoped=True,
    ),
    Verb(
        name="browse_queue",
        family=Family.QUEUES,
        summary="Shows messages of a queue without taking them, or changing anything",
        run=browse_queue,
        arguments=(_QUEUE,),
        options=(
            Option("offset", "how many to pass over; default 0", Kind.INTEGER),
            Option("limit", "how many to show at most; default 10", Kind.INTEGER),
            Option("filter", "only those that hold this text", Kind.TEXT, metavar="text"),
        ),
        is_scoped=True,
    ),
    Verb(
        name="sync_queue",
        family=Family.REPLICATION,
        summary="Synchronises the mirrors of a queue, and waits for the end",
        run=sync_queue,
        arguments=(_QUEUE,),
        is_scoped=True,
    ),
    Verb(
        name="cancel_sync_queue",
        family=Family.REPLICATION,
        summary="Stops synchronising the mirrors of a queue",
        run=cancel_sync_queue,
        arguments=(_QUEUE,),
        is_scoped=True,
    ),
)
