"""What can be set on a running node: watermarks and the level of its log."""

from __future__ import annotations

import re
from typing import Final

from warren.cli.ctl.api import NotFound
from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer, Document
from warren.cli.ctl.terms import in_term
from warren.cli.ctl.verbs import Argument, Exit, Family, Verb, WrongUsage, error

SIZE: Final = re.compile(r"\d+\s*([kmgtp]?i?b?)?", re.IGNORECASE)
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical", "none")


def set_vm_memory_high_watermark(call: Call) -> Answer:
    first = call.arguments[0]
    body: dict[str, object]
    if first == "absolute":
        size = _size(_second(call))
        call.announce(f"Setting memory threshold on {call.node} to {size} bytes ...")
        body = {"absolute": size}
    else:
        _only_one(call)
        share = _share(first)
        if not 0.0 <= share <= 1.0:
            raise WrongUsage(
                "Bad argument: The threshold should be a fraction between 0.0 and 1.0", Exit.DATA
            )
        call.announce(f"Setting memory threshold on {call.node} to {share} ...")
        body = {"value": share}
    _put(call, "vm-memory-high-watermark", body)
    return None


def set_disk_free_limit(call: Call) -> Answer:
    first = call.arguments[0]
    body: dict[str, object]
    if first == "mem_relative":
        share = _share(_second(call))
        call.announce(f"Setting disk free limit on {call.node} to {share} times the total RAM ...")
        body = {"mem_relative": share}
    else:
        _only_one(call)
        size = _size(first)
        call.announce(f"Setting disk free limit on {call.node} to {size} bytes ...")
        body = {"value": size}
    _put(call, "disk-free-limit", body)
    return None


def set_log_level(call: Call) -> Answer:
    level = call.arguments[0]
    if level not in LOG_LEVELS:
        raise error(f"level {level} is not supported. Try one of {', '.join(LOG_LEVELS)}")
    call.announce(f'Setting log level to "{level}" ...')
    _put(call, "log-level", {"level": level})
    return None


def environment(call: Call) -> Answer:
    call.announce(f"Application environment of node {call.node} ...")
    entries = call.api.get_or_none("warren", "environment", **call.about_node)
    if entries is None:
        raise error(f"{call.target.url} does not tell its environment: it is no Warren node")
    lines = [f"{entry['key']} = {in_term(entry['value'])}" for entry in entries]
    return Document("\n".join(lines), {entry["key"]: entry["value"] for entry in entries})


def _second(call: Call) -> str:
    second = call.argument(1)
    if second is None:
        raise WrongUsage("not enough arguments.")
    return second


def _only_one(call: Call) -> None:
    if len(call.arguments) > 1:
        raise WrongUsage("too many arguments.")


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongUsage("Bad argument.", Exit.DATA) from None


def _size(text: str) -> int | str:
    """Left to the node, which knows the units; but what is none is the caller's mistake."""
    if SIZE.fullmatch(text) is None:
        raise WrongUsage("Bad argument.", Exit.DATA)
    return int(text) if text.isdecimal() else text


def _put(call: Call, what: str, body: dict[str, object]) -> None:
    try:
        call.api.put("warren", "nodes", call.node, what, body=body)
    except NotFound as absent:
        raise error(f"{call.target.url} cannot set this: it is no Warren node") from absent


VERBS: Final = (
    Verb(
        name="set_vm_memory_high_watermark",
        family=Family.CONFIGURATION,
        summary="Sets how much memory may be used before publishers are held back",
        run=set_vm_memory_high_watermark,
        arguments=(
            Argument("fraction", "of the memory there is, 0.0 to 1.0"),
            Argument("value", "after absolute: bytes, or with a unit: 2GB", is_optional=True),
        ),
        usage_of_arguments="<fraction> | absolute <value>",
    ),
    Verb(
        name="set_disk_free_limit",
        family=Family.CONFIGURATION,
        summary="Sets how much space must be free on the disk for publishers to go on",
        run=set_disk_free_limit,
        arguments=(
            Argument("disk_limit", "bytes, or with a unit: 1GB"),
            Argument("fraction", "after mem_relative: of the memory", is_optional=True),
        ),
        usage_of_arguments="<disk_limit> | mem_relative <fraction>",
    ),
    Verb(
        name="set_log_level",
        family=Family.CONFIGURATION,
        summary="Sets log level in the running node",
        run=set_log_level,
        arguments=(Argument("log_level", ", ".join(LOG_LEVELS)),),
    ),
    Verb(
        name="environment",
        family=Family.CONFIGURATION,
        summary="Displays every setting with the value that is in force",
        run=environment,
    ),
)
