"""observer: a live view of a node and its queues, as `top` shows processes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from warren.cli.ctl.call import Call
from warren.cli.ctl.formatting import Answer
from warren.cli.ctl.help import bold
from warren.cli.ctl.verbs import Family, Kind, Option, Verb

INTERVAL_S: Final = 5
QUEUES_SHOWN: Final = 20
NAME_WIDTH: Final = 40
CLEAR: Final = "\x1b[H\x1b[2J"
MEGABYTE: Final = 1_000_000
_FIELDS: Final = "name,vhost,messages,messages_unacknowledged,consumers,message_stats,state"


def observer(call: Call) -> Answer:
    """Draw until interrupted; one picture, if nobody looks."""
    interval_s = max(1, call.integer("interval") or INTERVAL_S)
    is_live = sys.stdout.isatty()
    while True:
        picture = "\n".join(_picture(call))
        print(f"{CLEAR}{picture}" if is_live else picture, flush=True)
        if not is_live:
            return None
        time.sleep(interval_s)


def _picture(call: Call) -> Iterator[str]:
    node = call.api.get("nodes", call.node)
    overview: Any = call.api.get("overview", **call.about_node)
    totals, lengths = overview["object_totals"], overview["queue_totals"]
    yield bold(f"{call.node}   {time.strftime('%H:%M:%S')}")
    yield (
        f"memory {node['mem_used'] // MEGABYTE} of {node['mem_limit'] // MEGABYTE} MB   "
        f"disk free {node['disk_free'] // MEGABYTE} MB   files {node['fd_used']}   "
        f"connections {totals['connections']}   channels {totals['channels']}   "
        f"queues {totals['queues']}"
    )
    stats = overview["message_stats"]
    yield (
        f"messages {lengths.get('messages', 0)}   published {_rate(stats, 'publish'):.0f}/s   "
        f"delivered {_rate(stats, 'deliver_get'):.0f}/s   "
        f"acknowledged {_rate(stats, 'ack'):.0f}/s"
    )
    yield ""
    heads = ("messages", "unacked", "consumers", "in/s", "out/s", "state")
    yield bold(f"{'queue':<{NAME_WIDTH}}" + "".join(f"{head:>11}" for head in heads))
    queues = [q for q in call.api.get("queues", columns=_FIELDS) if "messages" in q]
    for queue in sorted(queues, key=_importance, reverse=True)[:QUEUES_SHOWN]:
        yield _line(queue)


def _line(queue: Mapping[str, Any]) -> str:
    stats = queue.get("message_stats") or {}
    place = queue["name"] if queue["vhost"] == "/" else f"{queue['vhost']}: {queue['name']}"
    values = (
        queue["messages"], queue["messages_unacknowledged"], queue["consumers"],
        f"{_rate(stats, 'publish'):.0f}", f"{_rate(stats, 'deliver_get'):.0f}", queue["state"],
    )  # fmt: skip
    return f"{place[: NAME_WIDTH - 1]:<{NAME_WIDTH}}" + "".join(f"{value:>11}" for value in values)


def _importance(queue: Mapping[str, Any]) -> tuple[float, int]:
    stats = queue.get("message_stats") or {}
    return _rate(stats, "publish") + _rate(stats, "deliver_get"), queue["messages"]


def _rate(stats: Mapping[str, Any], name: str) -> float:
    details: Mapping[str, float] = stats.get(f"{name}_details") or {}
    return details.get("rate", 0.0)


VERBS: Final = (
    Verb(
        name="observer",
        family=Family.MONITORING,
        summary="Shows the node and its busiest queues, again and again, as top does",
        run=observer,
        options=(Option("interval", "seconds between pictures; default 5", Kind.INTEGER),),
        is_endless=True,
    ),
)
