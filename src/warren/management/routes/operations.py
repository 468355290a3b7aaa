"""/api/warren: what RabbitMQ's operators do with rabbitmqctl, and alarms with those they hold up.

Limits and log levels set here act at once and are forgotten with the process, as RabbitMQ's are.
"""

from __future__ import annotations

from typing import Final

from warren.config.settings import settings
from warren.flow.units import Absolute, Amount, Relative, parse_size
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, MONITORS
from warren.management.cluster.sums import FIGURES, answers_of_all
from warren.management.errors import Refusal, bad_request
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.routes.overview import (
    node_in_path,
    node_in_query,
    queried_node_runs,
    running_node,
)
from warren.management.views.connections import show_connection_reference
from warren.management.views.moments import show_moment
from warren.model.logs import LEVELS, rotate_log_files, set_log_level

BLOCKED_SHOWN_MAX: Final = 1_000
# Relative limits are shares of the memory; more than that of it no machine has.
_SHARE_MAX: Final = 1_000.0
_HIDDEN: Final = "********"


async def _alarms(call: Call) -> list[JsonObject] | JsonObject:
    """Longest standing first. A blocked connection waits for all alarms, whoever has them."""
    blocked, alarms = _blocked(call), call.node.alarms.board.alarms
    held_up: JsonObject = {"connections": blocked[:BLOCKED_SHOWN_MAX], "count": len(blocked)}
    if call.part == FIGURES:
        return held_up
    for other in await answers_of_all(call, FIGURES) if alarms else ():
        held_up["connections"] += other["connections"]
        held_up["count"] += other["count"]
    return [
        {
            "node": alarm.node,
            "resource": alarm.resource.value,
            "since": show_moment(alarm.since_s * 1000),
            "blocked_connections": held_up["connections"][:BLOCKED_SHOWN_MAX],
            "blocked_connections_count": held_up["count"],
        }
        for alarm in alarms
    ]


def _blocked(call: Call) -> list[JsonObject]:
    return [
        {**show_connection_reference(connection), "user": connection.user.name}
        for connection in call.node.open_connections()
        if connection.state == "blocked"
    ]


async def _set_watermark(call: Call) -> None:
    body = await call.body()
    amount: Amount
    if "absolute" in body:
        amount = Absolute(_size(body.get("absolute")))
    else:
        (share,) = body.require("value")
        amount = Relative(_share(share))
    call.node.alarms.set_memory_watermark(amount)


async def _set_disk_free_limit(call: Call) -> None:
    body = await call.body()
    amount: Amount
    if "mem_relative" in body:
        amount = Relative(_share(body.get("mem_relative")))
    else:
        (size,) = body.require("value")
        amount = Absolute(_size(size))
    call.node.alarms.set_disk_free_limit(amount)


def _share(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad_request(["not_a_number", value])
    if not 0 <= value <= _SHARE_MAX:
        raise bad_request(["out_of_range", value])
    return float(value)


def _size(value: Json) -> int:
    """Bytes, as a number or with a unit."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    try:
        return parse_size(str(value))
    except ValueError as error:
        raise bad_request(str(error)) from None


async def _set_log_level(call: Call) -> None:
    (level,) = (await call.body()).texts("level")
    if level not in LEVELS:
        raise bad_request(f"level must be one of {', '.join(LEVELS)}")
    set_log_level(level)


async def _rotate_logs(call: Call) -> JsonObject:
    return {"rotated": rotate_log_files()}


async def _environment(call: Call) -> list[JsonObject]:
    """Every setting of the configuration file, with the value that is in force."""
    shown = []
    for key, setting in settings().items():
        value = _shown(setting.value_in(call.node.config))
        hidden = setting.is_secret and value
        shown.append(
            {"key": key, "value": _HIDDEN if hidden else value, "meaning": setting.meaning}
        )
    return shown


def _shown(value: object) -> Json:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return [_shown(item) for item in value]
    return str(value)


async def _stop(call: Call) -> None:
    """The answer is on its way before the first client hears of the end."""
    if call.node.on_stop_wanted is None:
        raise Refusal(503, "unavailable", "this node cannot be stopped from here")
    call.node.context.clock.call_later(0, call.node.on_stop_wanted)


RESOURCES: Final = (
    Resource(path="/warren/alarms", rule=MONITORS, get=_alarms),
    Resource(
        path="/warren/environment",
        rule=ADMINISTRATORS,
        exists=queried_node_runs,
        get=_environment,
        node_of=node_in_query,
    ),
    Resource(
        path="/warren/nodes/{node}/vm-memory-high-watermark",
        rule=ADMINISTRATORS,
        exists=running_node,
        node_of=node_in_path,
        put=_set_watermark,
    ),
    Resource(
        path="/warren/nodes/{node}/disk-free-limit",
        rule=ADMINISTRATORS,
        exists=running_node,
        node_of=node_in_path,
        put=_set_disk_free_limit,
    ),
    Resource(
        path="/warren/nodes/{node}/log-level",
        rule=ADMINISTRATORS,
        exists=running_node,
        node_of=node_in_path,
        put=_set_log_level,
    ),
    Resource(
        path="/warren/nodes/{node}/log-rotation",
        rule=ADMINISTRATORS,
        exists=running_node,
        node_of=node_in_path,
        post=_rotate_logs,
    ),
    Resource(
        path="/warren/nodes/{node}/stop",
        rule=ADMINISTRATORS,
        exists=running_node,
        post=_stop,
        node_of=node_in_path,
    ),
)
