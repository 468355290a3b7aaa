"""Closing connections."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from warren.cli.ctl.api import NotFound
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.listing import connection_pid
from warren.cli.ctl.verbs import Argument, Family, Kind, Option, Verb, error

Connection = dict[str, Any]


def close_connection(call: Call) -> Answer:
    which, reason = call.arguments
    call.announce(f"Closing connection {which}, reason: {reason}...")
    if not _is_pid(which) and " -> " not in which:
        raise error(f'Error:\n{{:invalid_pid_syntax, "{which}"}}')
    _close((c for c in _connections(call) if which in {_pid(c), c["name"]}), call, reason)
    return None


def close_all_connections(call: Call) -> Answer:
    reason = call.arguments[0]
    if call.flag("global"):
        call.announce(f"Closing all connections to node {call.node} (across all vhosts), "
                      f"reason: {reason}...")  # fmt: skip
        found = _connections(call)
    else:
        call.announce(f"Closing all connections in vhost {call.vhost}, reason: {reason}...")
        found = [c for c in _connections(call) if c.get("vhost") == call.vhost]
    limit = call.integer("limit") or len(found)
    closed = _close(found[:limit], call, reason)
    return f"Closed {closed} connections"


def close_all_user_connections(call: Call) -> Answer:
    user, reason = call.arguments
    call.announce(f"Closing connections of user {user}, reason: {reason}...")
    _close((c for c in _connections(call) if c.get("user") == user), call, reason)
    return None


def _connections(call: Call) -> list[Connection]:
    found: list[Connection] = call.api.get("connections", columns="name,node,user,vhost")
    return found


def _close(connections: Iterable[Connection], call: Call, reason: str) -> int:
    closed = 0
    delay_s = (call.integer("per-connection-delay") or 0) / 1000
    for connection in connections:
        try:
            call.api.delete("connections", connection["name"], reason=reason)
        except NotFound:  # it went by itself
            continue
        closed += 1
        time.sleep(delay_s)
    return closed


def _pid(connection: Connection) -> str:
    return connection_pid(str(connection.get("node")), connection["name"])


def _is_pid(text: str) -> bool:
    return text.startswith("<") and text.endswith(">") and text.count(".") >= 3


_REASON: Final = Argument("explanation", "told to the clients, and to the log")
_DELAY: Final = Option(
    "per-connection-delay", "pause after each, in ms", Kind.INTEGER, metavar="delay"
)

VERBS: Final = (
    Verb(
        name="close_connection",
        family=Family.OPERATIONS,
        summary="Closes a connection",
        run=close_connection,
        arguments=(Argument("connection pid", "see list_connections; or its name"), _REASON),
    ),
    Verb(
        name="close_all_connections",
        family=Family.OPERATIONS,
        summary="Closes all connections of a vhost, or all there are",
        run=close_all_connections,
        arguments=(_REASON,),
        options=(
            Option("limit", "close so many at most", Kind.INTEGER),
            Option("global", "in all virtual hosts"),
            _DELAY,
        ),
        is_scoped=True,
    ),
    Verb(
        name="close_all_user_connections",
        family=Family.OPERATIONS,
        summary="Closes all connections of a user",
        run=close_all_user_connections,
        arguments=(Argument("username", "name of the user"), _REASON),
        options=(_DELAY,),
    ),
)
