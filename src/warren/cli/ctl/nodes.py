"""Whether nodes are there, and stopping them."""

from __future__ import annotations

import time
from typing import Final

from warren.cli.ctl.api import READY, Api, NotFound, Refusal, require_node
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.verbs import Argument, Contact, Exit, Failure, Family, Option, Verb, error

STARTUP_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.1
# Reason that a node gives for not being ready: its listeners are to be resumed.
SUSPENDED: Final = "AMQP is suspended"


def ping(call: Call) -> Answer:
    place = call.text("node") or call.target.url
    call.announce(f"Will ping {place}. Timeout: {call.timeout_s} s.")
    call.make_contact()
    if call.text("node") is None:
        check_ready(call.api)
    return "Ping succeeded"


def check_ready(api: Api) -> None:
    """RabbitMQ has no such check; there, being answered at all is the sign.

    A node whose listeners are suspended, as in maintenance, has started: so RabbitMQ's tools say.
    """
    try:
        api.get(*READY)
    except NotFound:
        api.get("whoami")
    except Refusal as refusal:
        if refusal.reason == SUSPENDED:
            return
        raise error(f"the node at {api.target.url} is up, but not ready yet") from refusal


def await_startup(call: Call) -> Answer:
    wait_until_ready(call, STARTUP_TIMEOUT_S)
    return None


def stop(call: Call) -> Answer:
    try:
        require_node(call.api, call.text("node"))
        node = call.node
    except Failure:
        if call.flag("idempotent"):
            return f"Node at {call.text('node') or call.target.url} is not running"
        raise
    call.announce(f"Stopping and halting node {node} ...")
    try:
        call.api.post("warren", "nodes", node, "stop")
    except NotFound as absent:
        raise error(f"{call.target.url} cannot be stopped over HTTP") from absent
    if not call.flag("no-wait"):
        _wait_until_gone(call)
    return None


def wait_until_ready(call: Call, timeout_s: float) -> None:
    """Until the node serves clients; another node of the cluster, until it answers."""
    deadline = time.monotonic() + (call.timeout_s or timeout_s)
    while True:
        try:
            api = call.another_api(max(POLL_S, deadline - time.monotonic()))
            require_node(api, call.text("node"))
            if call.text("node") is None:
                check_ready(api)
        except Failure as failure:
            if time.monotonic() >= deadline:
                place = call.text("node") or f"at {call.target.url}"
                raise Failure(
                    f"Error: the node {place} did not start in time\n\n{failure.text}"
                ) from failure
            time.sleep(POLL_S)
        else:
            return


def _wait_until_gone(call: Call) -> None:
    deadline = time.monotonic() + (call.timeout_s or STOP_TIMEOUT_S)
    while time.monotonic() < deadline:
        if not _is_there(call, deadline):
            return
        time.sleep(POLL_S)
    place = call.text("node") or f"at {call.target.url}"
    raise Failure(f"Error: the node {place} is still there", Exit.TEMPORARY)


def _is_there(call: Call, deadline: float) -> bool:
    named = call.text("node")
    try:
        api = call.another_api(max(POLL_S, deadline - time.monotonic()))
        if named is None or call.is_asked_itself:
            api.get(*READY)
        else:
            return bool(api.get("nodes", named, columns="running")["running"])
    except Failure:
        return False
    except Refusal:
        pass  # it is about to go
    return True


_NO_WAIT: Final = Option("no-wait", "do not wait until it is gone")

VERBS: Final = (
    Verb(
        name="ping",
        family=Family.MONITORING,
        summary="Checks that the node is up and serves AMQP",
        run=ping,
    ),
    Verb(
        name="await_startup",
        family=Family.NODES,
        summary="Waits for the node to start",
        run=await_startup,
        contact=Contact.OWN,
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="stop",
        family=Family.NODES,
        summary="Stops the node, and waits until it is gone",
        run=stop,
        arguments=(Argument("pidfile", "accepted for rabbitmqctl's sake", is_optional=True),),
        options=(Option("idempotent", "success if the node is not running"), _NO_WAIT),
        contact=Contact.OWN,
        timeout_s=STOP_TIMEOUT_S,
    ),
    Verb(
        name="shutdown",
        family=Family.NODES,
        summary="Stops the node, and waits until it is gone",
        run=stop,
        options=(
            Option("wait", "wait until it is gone (the default)"),
            _NO_WAIT,
        ),
        contact=Contact.OWN,
        timeout_s=STOP_TIMEOUT_S,
    ),
)
