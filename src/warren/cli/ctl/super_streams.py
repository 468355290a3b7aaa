"""Super streams: the verbs of rabbitmq-streams about them, with its options, and a list."""

from __future__ import annotations

import re
from typing import Any, Final

from warren.cli.ctl.api import NotFound
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Table
from warren.cli.ctl.verbs import (
    Argument,
    Exit,
    Failure,
    Family,
    Kind,
    Option,
    Verb,
    WrongUsage,
    error,
)

COLUMNS: Final = ("name", "type", "partitions", "streams", "leaders")
_AGE: Final = re.compile(r"[0-9]+[YMDhms]")
# RabbitMQ's tool takes an age as ISO 8601 has it; of one unit only, as streams do.
_ISO_AGE: Final = re.compile(r"P(?:([0-9]+)([YMD])|T([0-9]+)([HMS]))")
_LOCATORS: Final = ("balanced", "least-leaders", "client-local", "random")


def add_super_stream(call: Call) -> Answer:
    name = call.arguments[0]
    body = _partitions(call)
    if arguments := _arguments(call):
        body["arguments"] = arguments
    if (type_ := call.text("exchange-type")) is not None:
        body["type"] = type_
    call.announce(f"Adding a super stream {name} in vhost '{call.vhost}' ...")
    call.api.put("warren", "super-streams", call.vhost, name, body=body)
    shown = call.api.get("warren", "super-streams", call.vhost, name)
    return f"Super stream {name} has {len(shown['partitions'])} partitions"


def delete_super_stream(call: Call) -> Answer:
    name = call.arguments[0]
    call.announce(f"Deleting super stream {name} in vhost '{call.vhost}' ...")
    try:
        call.api.delete("warren", "super-streams", call.vhost, name)
    except NotFound as absent:
        text = f"No super stream '{name}' was found in virtual host '{call.vhost}'"
        raise error("not_found", Exit.DATA, hint=text) from absent
    return f"Super stream {name} was deleted, with its streams"


def list_super_streams(call: Call) -> Answer:
    call.announce(f"Listing super streams for vhost {call.vhost} ...")
    found: list[dict[str, Any]] = call.api.get("warren", "super-streams", call.vhost)
    return Table(COLUMNS, [_row(each) for each in found])


def _row(shown: dict[str, Any]) -> dict[str, object]:
    partitions = shown["partitions"]
    return {
        "name": shown["name"],
        "type": shown["type"],
        "partitions": len(partitions),
        "streams": [partition["name"] for partition in partitions],
        "leaders": [partition["node"] for partition in partitions],
    }


def _partitions(call: Call) -> dict[str, object]:
    keys = call.text("binding-keys") or call.text("routing-keys")
    count = call.integer("partitions")
    if keys is None:
        return {} if count is None else {"partitions": count}
    if count is not None:
        raise WrongUsage("Specify --partitions or --binding-keys, not both.")
    return {"routing_keys": [key.strip() for key in keys.split(",") if key.strip()]}


def _arguments(call: Call) -> dict[str, object]:
    """The arguments of the streams, from the options that were given."""
    found: dict[str, object] = {}
    for option in ("max-length-bytes", "stream-max-segment-size-bytes"):
        if (text := call.text(option)) is not None:
            found[f"x-{option}"] = _bytes(option, text)
    if (age := call.text("max-age")) is not None:
        found["x-max-age"] = _age(age)
    if (locator := call.text("leader-locator")) is not None:
        if locator not in _LOCATORS:
            raise _invalid("leader-locator", f"is one of {', '.join(_LOCATORS)}")
        found["x-queue-leader-locator"] = locator
    if (size := call.integer("initial-cluster-size")) is not None:
        found["x-initial-cluster-size"] = size
    return found


def _bytes(option: str, text: str) -> int:
    from warren.flow.units import parse_size

    try:
        return parse_size(text)
    except ValueError as wrong:
        raise _invalid(option, str(wrong)) from wrong


def _age(text: str) -> str:
    """In the form of x-max-age: 7D, 12h."""
    if _AGE.fullmatch(text):
        return text
    found = _ISO_AGE.fullmatch(text)
    if found is None:
        raise _invalid("max-age", f"expected one number and unit, as in 7D, P7D or PT12H: '{text}'")
    days, unit_of_days, time, unit_of_time = found.groups()
    return f"{days}{unit_of_days}" if days else f"{time}{unit_of_time.lower()}"


def _invalid(option: str, problem: str) -> Failure:
    return error(f"Invalid value for option --{option}: {problem}", Exit.DATA, Exit.DATA)


_NAME: Final = Argument("super-stream", "name of the super stream: of its exchange")

VERBS: Final = (
    Verb(
        name="add_super_stream",
        family=Family.QUEUES,
        summary="Adds a super stream, or partitions to one that is there",
        run=add_super_stream,
        arguments=(_NAME,),
        options=(
            Option("partitions", "number of partitions; 3 by default", Kind.INTEGER),
            Option("binding-keys", "instead, a partition for each of these keys: a,b", Kind.TEXT),
            Option("routing-keys", "what RabbitMQ before 3.13 calls --binding-keys", Kind.TEXT),
            Option("max-length-bytes", "most bytes of a partition, as in 50GB", Kind.TEXT),
            Option("max-age", "most time that records are kept: 7D, P7D, PT12H", Kind.TEXT),
            Option(
                "stream-max-segment-size-bytes", "bytes of a segment file, as in 500MB", Kind.TEXT
            ),
            Option(
                "leader-locator", "which node leads: balanced, client-local or random", Kind.TEXT
            ),
            Option("initial-cluster-size", "taken, without effect: policies mirror", Kind.INTEGER),
            Option("exchange-type", "x-super-stream: keys are hashed here; or direct", Kind.TEXT),
        ),
        is_scoped=True,
        notes="A super stream that is there grows to as many partitions; it never shrinks.",
    ),
    Verb(
        name="delete_super_stream",
        family=Family.QUEUES,
        summary="Deletes a super stream: its exchange, and its streams with all records",
        run=delete_super_stream,
        arguments=(_NAME,),
        is_scoped=True,
    ),
    Verb(
        name="list_super_streams",
        family=Family.QUEUES,
        summary="Lists super streams: their partitions, and the nodes that lead these",
        run=list_super_streams,
        is_scoped=True,
        is_table=True,
    ),
)
