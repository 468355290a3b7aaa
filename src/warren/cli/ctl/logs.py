"""Logs of a node: where they are, their last lines, and lines as they come."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.verbs import Family, Kind, Option, Verb, error

LINES_DEFAULT: Final = 50
POLL_S: Final = 0.5


def log_location(call: Call) -> Answer:
    call.announce(f"Log file location(s) on node {call.node} ...")
    files: list[str] = call.api.get("nodes", call.node).get("log_files", [])
    return "\n".join(files)


def log_tail(call: Call) -> Answer:
    number = LINES_DEFAULT if call.integer("number") is None else call.integer("number")
    call.announce(f"Last {number} log lines on node {call.node} ...")
    return "\n".join(_asked(call, lines=str(number))["lines"]) or None


def log_tail_stream(call: Call) -> Answer:
    seconds = call.integer("duration")
    ends_at = None if seconds is None else time.monotonic() + seconds
    count = _asked(call, lines="0")["count"]
    call.announce(f"Streaming logs from node {call.node} ...")
    while ends_at is None or time.monotonic() < ends_at:
        found = _asked(call, after=str(count))
        count = found["count"]
        for line in found["lines"]:
            print(line, flush=True)
        time.sleep(POLL_S)
    return None


def rotate_logs(call: Call) -> Answer:
    call.announce(f"Rotating logs for node {call.node} ...")
    rotated = call.api.post("warren", "nodes", call.node, "log-rotation", body={})["rotated"]
    if not rotated:
        raise error(
            "the log goes to standard error only: what reads it rotates it (journald, Docker), or "
            "set log.file in rabbitmq.conf"
        )
    return None


def _asked(call: Call, **query: str) -> dict[str, Any]:
    path = ("warren", "nodes", call.node, "diagnostics", "log")
    found: dict[str, Any] = call.api.get(*path, **query)
    return found


_DURATION: Final = Option("duration", "seconds; for ever if absent", Kind.INTEGER, "d")

VERBS: Final = (
    Verb(
        name="log_location",
        family=Family.CONFIGURATION,
        summary="Shows where the log of the node goes",
        run=log_location,
        options=(Option("all", "accepted for rabbitmq-diagnostics' sake", short="a"),),
    ),
    Verb(
        name="log_tail",
        family=Family.MONITORING,
        summary="Prints the last lines of the node's log (the last 2000 are kept in memory)",
        run=log_tail,
        options=(Option("number", "how many lines; default 50", Kind.INTEGER, "N"),),
    ),
    Verb(
        name="log_tail_stream",
        family=Family.MONITORING,
        summary="Prints lines of the node's log as they come",
        run=log_tail_stream,
        options=(_DURATION,),
        is_endless=True,
    ),
    Verb(
        name="rotate_logs",
        family=Family.NODES,
        summary="Says who rotates logs: the node does not",
        run=rotate_logs,
    ),
)
