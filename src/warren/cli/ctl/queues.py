"""Purging, deleting and reading queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from warren.cli.ctl.api import NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, json_text
from warren.cli.ctl.tools import Tool
from warren.cli.ctl.verbs import Argument, Exit, Family, Kind, Option, Verb, error, no_such_queue

BROWSE_DEFAULT: Final = 10


def purge_queue(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Purging queue '{name}' in vhost '{call.vhost}' ...")
    ready = (call.api.get_or_none("queues", call.vhost, name) or {}).get("messages_ready", 0)
    try:
        call.api.delete("queues", call.vhost, name, "contents")
    except NotFound as absent:
        raise no_such_queue("not_found", name, call.vhost) from absent
    return None if Tool.is_rabbitmq() else f"{ready} messages were purged"


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
        raise no_such_queue("Queue not found", name, call.vhost, Exit.USAGE)
    query = {option: "true" for option in ("if-empty", "if-unused") if call.flag(option)}
    try:
        call.api.delete("queues", call.vhost, name, **query)
    except NotFound as gone:
        raise no_such_queue("Queue not found", name, call.vhost, Exit.USAGE) from gone
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


def existing_queue(call: Call, name: str) -> dict[str, Any]:
    queue: dict[str, Any] | None = call.api.get_or_none("queues", call.vhost, name)
    if queue is None:
        raise no_such_queue("not_found", name, call.vhost)
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
        existing_queue(call, name)
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
)
