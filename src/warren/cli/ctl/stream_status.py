"""stream_status of rabbitmq-queues, and peek: a stream's offsets, and one message of a queue."""

from __future__ import annotations

from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document, Table, json_text
from warren.cli.ctl.queues import existing_queue
from warren.cli.ctl.verbs import Argument, Exit, Family, Option, Verb, WrongUsage, error

COLUMNS: Final = (
    "role", "node", "first_offset", "committed_offset", "messages", "bytes", "readers", "segments",
)  # fmt: skip
TRACKED: Final = ("group", "offset", "lag", "lost", "updated_at")


def stream_status(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Status of stream {name} on node {call.node} ...")
    queue = existing_queue(call, name)
    if queue.get("type") != "stream":
        raise error("not_a_stream")
    if call.flag("tracking"):
        groups = call.api.get("warren", "streams", call.vhost, name, "groups")
        return Table(TRACKED, groups)
    log: dict[str, Any] = call.api.get_or_none("warren", "streams", call.vhost, name) or {}
    master = str(queue.get("node"))
    synchronised = set(queue.get("synchronised_slave_nodes") or ())
    rows = [{"role": "writer", "node": master}]
    rows += [
        {"role": "replica" if node in synchronised else "replica (behind)", "node": node}
        for node in queue.get("slave_nodes") or ()
    ]
    figures = {
        "first_offset": log.get("first_offset", ""),
        "committed_offset": log["end_offset"] - 1 if "end_offset" in log else "",
        "messages": queue.get("messages", ""),
        "bytes": queue.get("message_bytes", ""),
        "readers": queue.get("consumers", ""),
        "segments": len(log.get("segments", ())),
    }
    return Table(COLUMNS, [{**dict.fromkeys(COLUMNS, ""), **rows[0], **figures}, *(
        {**dict.fromkeys(COLUMNS, ""), **row} for row in rows[1:]
    )])  # fmt: skip


def peek(call: Call) -> Answer:
    name, position = call.arguments
    if not position.isdecimal() or int(position) < 1:
        raise WrongUsage("Argument 'position' must be a positive integer", Exit.DATA)
    call.announce(f"Peeking at queue {name} at position {position} on node {call.node} ...")
    existing_queue(call, name)
    query = {"offset": str(int(position) - 1), "limit": "1"}
    page = call.api.get("warren", "queues", call.vhost, name, "browse", **query)
    messages = page if isinstance(page, list) else page["items"]
    if not messages:
        raise error("No message at this position of the queue", Exit.DATA)
    found: dict[str, Any] = messages[0]
    shown = [f"{key}\t{v if isinstance(v, str) else json_text(v)}" for key, v in found.items()]
    return Document("\n".join(["keys\tvalues", *shown]), found)


VERBS: Final = (
    Verb(
        name="stream_status",
        family=Family.MONITORING,
        summary="Displays where a stream's copies are, its offsets and readers",
        run=stream_status,
        arguments=(Argument("stream", "name of the stream"),),
        options=(Option("tracking", "the offsets that groups of consumers have stored"),),
        is_scoped=True,
        is_table=True,
    ),
    Verb(
        name="peek",
        family=Family.QUEUES,
        summary="Shows the message at a position of a queue, and touches nothing",
        run=peek,
        arguments=(
            Argument("queue", "name of the queue"),
            Argument("position", "from 1, the oldest, on"),
        ),
        is_scoped=True,
    ),
)
