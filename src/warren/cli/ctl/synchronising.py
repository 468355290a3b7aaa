"""Synchronising the mirrors of a queue: sync_queue, which waits, and cancel_sync_queue."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.queues import existing_queue
from warren.cli.ctl.verbs import Argument, Exit, Family, Verb, error

POLL_S: Final = 0.25
# A day: longer than any queue takes, and still an end.
POLLS_MAX: Final = int(86_400 / POLL_S)
IDLE_POLLS_MAX: Final = 20
"""Polls without progress after which nothing will come of it: it was cancelled, or cannot begin."""
BAR_CHARS: Final = 30


def sync_queue(call: Call) -> Answer:
    """Wait for the end, like rabbitmqctl; fail if mirrors lack something then."""
    name = call.arguments[0]
    call.announce(f"Synchronising queue '{name}' in vhost '{call.vhost}' ...")
    if existing_queue(call, name).get("slave_nodes") is None:
        hint = f"queue '{name}' in vhost '{call.vhost}': no policy with ha-mode applies to it"
        raise error("not_mirrored", Exit.DATA, Exit.UNAVAILABLE, hint)
    call.api.post("queues", call.vhost, name, "actions", body={"action": "sync"})
    idle = 0
    for _ in range(POLLS_MAX):
        queue = existing_queue(call, name)
        behind = _behind(queue)
        if queue.get("state") == "syncing":
            idle = 0
            _draw(call, queue)
        elif not behind:
            _end(call)
            return None
        else:
            idle += 1
        if idle == IDLE_POLLS_MAX:
            break
        time.sleep(POLL_S)
    _end(call)
    raise error(
        f"the synchronisation of queue '{name}' was cancelled, or did not begin: "
        f"not in sync: {', '.join(behind)}"
    )


def _behind(queue: Mapping[str, Any]) -> list[str]:
    synchronised = queue.get("synchronised_slave_nodes") or ()
    return [node for node in queue.get("slave_nodes") or () if node not in synchronised]


def _draw(call: Call, queue: Mapping[str, Any]) -> None:
    """A bar in the last line of the terminal."""
    if call.is_quiet or not sys.stderr.isatty():
        return
    done, total = int(queue.get("sync_messages") or 0), int(queue.get("messages") or 0)
    share = min(1.0, done / total) if total else 1.0
    bar = ("#" * round(BAR_CHARS * share)).ljust(BAR_CHARS, ".")
    print(
        f"\r[{bar}] {share:4.0%}  {done} of {total} messages", end="", file=sys.stderr, flush=True
    )


def _end(call: Call) -> None:
    if not call.is_quiet and sys.stderr.isatty():
        print(file=sys.stderr)


def cancel_sync_queue(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Stopping synchronising queue '{name}' in vhost '{call.vhost}' ...")
    if existing_queue(call, name).get("state") != "syncing":
        return "not_syncing"
    call.api.post("queues", call.vhost, name, "actions", body={"action": "cancel_sync"})
    return None


_QUEUE: Final = Argument("queue", "name of the queue")

VERBS: Final = (
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
