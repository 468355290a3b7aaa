"""Many of everything: what connections, queues, bindings and mirrored queues cost by themselves.

Nothing is published: this is about what a broker has, not about what it does. Each dimension is
tried at 1, 100 and 10 000 (mirrored queues: 2000), on one node and on a cluster of three, with a
fresh broker each time: the time to make them, the memory each takes, the processor time of a broker
that has them and is left alone, and the time to stop and to start with them. The figures to watch
are those per thing: they must not grow with the number.

The last rows have all of it at once: 10 000 connections with a channel and a consumer each, 20 000
durable queues, 2000 of them mirrored if there is a cluster, and 100 000 bindings. There one node is
killed, too. `--share` makes all of it smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final

from bench.brokers import NotInstalled
from bench.idle_cost import usage_of
from bench.many_failover import fail_over
from bench.many_subjects import ONE, Subject, three_warrens
from bench.many_things import (
    GROWING,
    HEARTBEAT_S,
    Growing,
    crowd,
    make_bindings,
    make_queues,
    mirror,
    queue_names,
)
from bench.report import Table

QUEUES, BINDINGS, CONNECTIONS, MIRRORED = 20_000, 100_000, 10_000, 2_000
SETTLE_S: Final = 5.0
LOOK_S: Final = 10.0
"""Twice the longest interval of what Warren does every now and then."""
GROWING_COLUMNS: Final = (
    "growing", "broker", "how many", "made in s", "KiB each", "idle CPU ms/s", "stop s", "start s",
)  # fmt: skip
WHOLE_COLUMNS: Final = (
    "broker", "queues and bindings made in s", "connected in s", "RSS MiB", "idle CPU ms/s",
    "masters confirm after s", "clients consume after s", "stop s", "start s",
)  # fmt: skip
Say = Callable[[str], None]
Start = Callable[[], AbstractContextManager[Subject]]


@dataclass(frozen=True)
class Idle:
    rss_kb: int
    nodes_ms: float
    helper_ms: float | None

    def __str__(self) -> str:
        helper = "" if self.helper_ms is None else f" + {self.helper_ms:.1f}"
        return f"{self.nodes_ms:.1f}{helper}"


def many(starters: Sequence[str], share: float, say: Say) -> list[Table]:
    alone = [ONE[name] for name in starters]
    clusters: list[Start] = [three_warrens] if "warren" in starters else []
    grown = Table("Many of everything: what each costs as it grows", GROWING_COLUMNS)
    for growing in GROWING:
        for start in (*alone, *clusters) if growing.is_for_one_node else clusters:
            for count in growing.counts(share):
                add_growing(grown, growing, count, start, say)
    whole = Table("Many of everything: all at once", WHOLE_COLUMNS)
    for start in (*alone, *clusters):
        add_whole(whole, start, share, say)
    grown.notes.append(
        "A fresh broker for each row. Memory is the growth of all nodes' RSS by one thing; idle "
        f"CPU that of all nodes (+ etcd) in {LOOK_S:g} s with nothing to do, heartbeats of "
        f"{HEARTBEAT_S} s included. Times to stop and start are those of the slowest node."
    )
    return [grown, whole]


def add_growing(table: Table, growing: Growing, count: int, start: Start, say: Say) -> None:
    try:
        with start() as subject:
            say(f"many: {subject.name}, {count} {growing.name}")
            row = _measure_growing(subject, growing, count)
            table.rows.append((growing.name, subject.name, str(count), *row))
    except NotInstalled as missing:
        table.notes.append(f"Not installed: {missing}.")
    except (RuntimeError, OSError) as failure:
        table.failures.append(f"{count} {growing.name}: {failure}")


def _measure_growing(subject: Subject, growing: Growing, count: int) -> Sequence[str]:
    with ExitStack() as stack:
        subject.start()
        growing.prepare(subject, count)
        time.sleep(SETTLE_S)
        before_kb = subject.rss_kb()
        made_s = growing.make(subject, count, stack)
        idle = look(subject)
        stopped_s = subject.stop()
    started_s = subject.start()
    each = f"{(idle.rss_kb - before_kb) / count:.1f}"
    return (f"{made_s:.2f}", each, str(idle), f"{stopped_s:.2f}", f"{started_s:.2f}")


def look(subject: Subject) -> Idle:
    """Leave it alone for a while, and see what it does all the same."""
    time.sleep(SETTLE_S)
    rss_kb = subject.rss_kb()
    nodes = [node.pid for node in subject.nodes]
    helpers = [] if subject.helper is None else [subject.helper]
    before = usage_of(nodes), usage_of(helpers)
    time.sleep(LOOK_S)
    used_s = [
        usage_of(pids).since(then).cpu_s
        for pids, then in zip((nodes, helpers), before, strict=True)
    ]
    nodes_ms, helper_ms = (1000 * used / LOOK_S for used in used_s)
    return Idle(rss_kb, nodes_ms, helper_ms if helpers else None)


def add_whole(table: Table, start: Start, share: float, say: Say) -> None:
    try:
        with start() as subject:
            table.rows.append((subject.name, *_measure_whole(subject, share, say)))
    except NotInstalled as missing:
        table.notes.append(f"Not installed: {missing}.")
    except (RuntimeError, OSError) as failure:
        table.failures.append(f"all at once: {failure}")


def _measure_whole(subject: Subject, share: float, say: Say) -> Sequence[str]:
    queues, bindings, connections, mirrored = (
        max(round(size * share), 1) for size in (QUEUES, BINDINGS, CONNECTIONS, MIRRORED)
    )
    subject.start()
    is_cluster = len(subject.nodes) > 1
    names = queue_names(queues, mirrored if is_cluster else 0)
    say(f"many: {subject.name}, making {queues} queues and {bindings} bindings")
    if is_cluster:
        mirror(subject)
    made_s = make_queues(subject, names) + make_bindings(subject, names, bindings)
    say(f"many: {subject.name}, connecting {connections} clients")
    with crowd(subject.ports, names[:connections]) as clients:
        connected_s = clients.news()["seconds"]
        idle = look(subject)
        failed_over = ["", ""]
        if is_cluster:
            say(f"many: {subject.name}, killing a node")
            failover = fail_over(subject, names[:mirrored], clients)
            failed_over = [f"{failover.masters_s:.2f}", f"{failover.clients_s:.2f}"]
        say(f"many: {subject.name}, stopping and starting")
        stopped_s = subject.stop()
    started_s = subject.start()
    return (
        f"{made_s:.1f}", f"{connected_s:.1f}", f"{idle.rss_kb / 1024:.0f}", str(idle),
        *failed_over, f"{stopped_s:.2f}", f"{started_s:.2f}",
    )  # fmt: skip
