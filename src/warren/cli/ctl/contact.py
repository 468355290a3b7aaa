"""Contact with a node: whether it can be asked at all, found out before a verb begins.

A verb that asks the wrong node, or none, must not sound as if all were well. So every verb that
needs a node starts here, with its first question. Two things have to be known within a time of
their own, whatever `--timeout` allows the verb itself:

    who is at the address?     any answer of a management API will do; a process that was stopped
                               accepts connections and never answers
    is the node there that     `-n` names it: the node at the address passes the question on to it,
    the verb is about?         so that a member that is dead, or silent, is found out

RabbitMQ's tools connect to the node itself, wait 7 s for it, and end with 69 if it does not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from warren.cli.ctl.verbs import Failure

if TYPE_CHECKING:
    from warren.cli.ctl.api import Api
    from warren.cli.ctl.call import Call

ANSWER_S_MAX: Final = 7.0
# A node waits for another one 10 s at most before it says that the other is silent.
PASSED_ON_S_MAX: Final = 12.0


def require_node(call: Call, api: Api) -> None:
    """Raise a Failure (69) unless the node that the verb is about answers."""
    api.reach(ANSWER_S_MAX)
    if (named := call.text("node")) is not None:
        _require_member(call, named)


def _require_member(call: Call, name: str) -> None:
    from warren.cli.ctl.api import NotFound, Refusal

    asker = call.another_api(PASSED_ON_S_MAX)
    try:
        found: dict[str, Any] = asker.get("nodes", name, columns="name,running")
    except NotFound:
        members = asker.get("nodes", columns="name")
        names = ", ".join(str(member["name"]) for member in members)
        raise _failure(
            name, f"{call.target.url} knows no node '{name}'. Its nodes are: {names}"
        ) from None
    except Refusal as silent:
        raise _failure(name, f"asked by {call.target.url}: {silent.reason}") from silent
    if not found["running"]:
        raise _failure(
            name,
            f"{call.target.url} has it as a member that is not running.\n"
            "Start it with 'warren server'; if it is gone for good: "
            f"'warrenctl forget_cluster_node {name}'",
        )


def _failure(name: str, reason: str) -> Failure:
    """RabbitMQ's words first: scripts look for them."""
    return Failure(
        f"Error: unable to perform an operation on node '{name}'. Please see diagnostics "
        f"information and suggestions below.\n\n{reason}"
    )
