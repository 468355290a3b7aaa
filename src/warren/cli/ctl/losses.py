"""Losses: what a verb would delete for good, said before it does, and asked about."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Document
from warren.cli.ctl.tools import Tool
from warren.cli.ctl.verbs import Exit, Failure, Option

SHOWN_MAX: Final = 20
OPTIONS: Final = (
    Option("yes", "do it, whatever is lost"),
    Option("dry-run", "only say what would be lost"),
)


def found_losses(call: Call, node: str) -> Mapping[str, Any] | None:
    """None if the node at the address does not tell: it is not Warren's, or knows no such node."""
    found: Mapping[str, Any] | None = call.api.get_or_none("warren", "nodes", node, "losses")
    return found


def as_document(losses: Mapping[str, Any]) -> Document:
    return Document("\n".join(_lines(losses)), dict(losses))


def agree(call: Call, losses: Mapping[str, Any]) -> None:
    """Say what is lost, and go on only if that is wanted. Raises a Failure (64) if it is not.

    Nobody is asked where nothing is lost. RabbitMQ's tools never ask, so neither does this program
    when it is called by the name of one.
    """
    if not losses["queues"] and not losses["streams"] and not losses["unsynchronised"]:
        return
    text = "\n".join(_lines(losses))
    if call.flag("yes") or Tool.is_rabbitmq():
        call.announce(text)
        return
    if not sys.stdin.isatty():
        raise Failure(
            f"Error: nothing was done, as this would be lost:\n\n{text}\n\n"
            "Give --yes to do it all the same; --dry-run only shows this list.",
            Exit.USAGE,
        )
    print(text, file=sys.stderr)
    print("\nType 'yes' to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise Failure("Error: nothing was done", Exit.USAGE)


def _lines(losses: Mapping[str, Any]) -> Iterator[str]:
    count = losses["queues"] + losses["streams"]
    if not count and not losses["unsynchronised"]:
        yield "Nothing is lost: other nodes have all of it."
    if count:
        kinds = f"{losses['queues']} queues and {losses['streams']} streams"
        yield f"Lost for good with node {losses['node']}: {kinds} {_contents(losses)}"
        for queue in losses["named"][:SHOWN_MAX]:
            yield f"  {_name(queue)}{_figures(queue)}"
        if count > SHOWN_MAX:
            yield f"  ... and {count - SHOWN_MAX} more (--formatter json lists them)"
    if losses["everything"]:
        yield "The node is alone: users, permissions, virtual hosts and policies go, too."
    if losses["unsynchronised"]:
        yield "Queues that go on with a copy that lacks messages:"
        yield from (f"  {_name(queue)}" for queue in losses["unsynchronised"][:SHOWN_MAX])


def _contents(losses: Mapping[str, Any]) -> str:
    if losses["messages"] is None:
        return "(how many messages only that node knows, and it is down):"
    return f"with {losses['messages']} messages, {losses['bytes']} bytes:"


def _name(queue: Mapping[str, Any]) -> str:
    return f"{queue['type']} '{queue['name']}' in vhost '{queue['vhost']}'"


def _figures(queue: Mapping[str, Any]) -> str:
    return "" if queue["messages"] is None else f": {queue['messages']} messages"
