"""Whether nodes are there, and stopping them."""

from __future__ import annotations

import time
from typing import Final

from warren.cli.ctl.api import Api, NotFound, Refusal
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.verbs import Argument, Exit, Failure, Family, Option, Verb, error

STARTUP_TIMEOUT_S: Final = 300.0
STOP_TIMEOUT_S: Final = 300.0
POLL_S: Final = 0.1
READY: Final = ("health", "checks", "ready")


def ping(call: Call) -> Answer:
    call.announce(f"Will ping {call.target.url}. Timeout: {call.timeout_s} s.")
    check_ready(call.api)
    return "Ping succeeded"


def check_ready(api: Api) -> None:
    """RabbitMQ has no such check; there, being answered at all is the sign."""
    try:
        api.get(*READY)
    except NotFound:
        api.get("whoami")
    except Refusal as refusal:
        raise error(f"the node at {api.target.url} is up, but not ready yet") from refusal


def await_startup(call: Call) -> Answer:
    wait_until_ready(call, STARTUP_TIMEOUT_S)
    return None


def stop(call: Call) -> Answer:
    try:
        node = call.node
    except Failure:
        if call.flag("idempotent"):
            return f"Node at {call.target.url} is not running"
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
    deadline = time.monotonic() + (call.timeout_s or timeout_s)
    while True:
        try:
            check_ready(call.another_api(max(POLL_S, deadline - time.monotonic())))
        except Failure as failure:
            if time.monotonic() >= deadline:
                raise Failure(
                    f"Error: the node at {call.target.url} did not start in time\n\n{failure.text}",
                    Exit.TEMPORARY,
                ) from failure
            time.sleep(POLL_S)
        else:
            return


def _wait_until_gone(call: Call) -> None:
    deadline = time.monotonic() + (call.timeout_s or STOP_TIMEOUT_S)
    while time.monotonic() < deadline:
        try:
            call.another_api(max(POLL_S, deadline - time.monotonic())).get(*READY)
        except Failure:
            return
        except Refusal:
            pass
        time.sleep(POLL_S)
    raise Failure(f"Error: the node at {call.target.url} is still there", Exit.TEMPORARY)


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
        timeout_s=STARTUP_TIMEOUT_S,
    ),
    Verb(
        name="stop",
        family=Family.NODES,
        summary="Stops the node, and waits until it is gone",
        run=stop,
        arguments=(Argument("pidfile", "accepted for rabbitmqctl's sake", is_optional=True),),
        options=(Option("idempotent", "success if the node is not running"), _NO_WAIT),
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
        timeout_s=STOP_TIMEOUT_S,
    ),
)
