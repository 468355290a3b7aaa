"""Mirrored and quorum queues, with a copy on each of three nodes, beside RabbitMQ's.

A confirm means that all copies have the message on disk (RabbitMQ's quorum queue: two of three).
Full speed tells the rate and what a message costs all nodes together; a given rate tells how long a
confirm takes. The clusters run one after the other, since a machine has room for one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.brokers import NotInstalled
from bench.clusters import CLUSTERS, Cluster
from bench.load import LoadFailed, Measurement, disturbances, losses, measure, median, run
from bench.report import Table, pair, rate, times
from bench.scenarios import ACKS, DURABLE, PACED

MIRRORED: Final = "mirrored"
QUORUM: Final = "quorum"
QUORUM_ARGUMENT: Final = "--queue-arg x-queue-type=quorum"
RABBITMQ: Final = "RabbitMQ"
RATE_WANTED: Final = 8
RATE_BESIDE_QUORUM_WANTED: Final = 4
CPU_US_WANTED: Final = 30
CONFIRM_P99_MS_WANTED: Final = 10
SECONDS_MAX: Final = 60
"""Of one run, with all that it has to wait for."""
COLUMNS: Final = (
    "1 KB persistent, confirms", "cluster", "queue", "msg/s", "CPU us/msg",
    "confirm p50 / p99 ms", "Warren's rate", "CPU", "p99",
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    title: str
    node: int
    """Where the clients are; the queue is led by the first."""
    load: str
    paced: bool = False


PLACES: Final = (
    Place("clients on its master's node", 0, f"{DURABLE} {ACKS}"),
    Place("clients on a mirror's node", 1, f"{DURABLE} {ACKS}"),
    Place("1000 msg/s", 0, f"{DURABLE} {PACED}", paced=True),
)
Found = dict[Place, dict[tuple[str, str], Measurement]]
"""By cluster and kind of queue."""


def mirrored(
    starters: Sequence[str], repeats: int, seconds: float, say: Callable[[str], None]
) -> Table:
    table = Table("Mirrored queues", COLUMNS)
    found: Found = {place: {} for place in PLACES}
    for starter in starters:
        say(f"mirrored: starting the cluster of {starter}")
        try:
            with CLUSTERS[starter]() as cluster:
                cluster.operator.set_policy("ha", "^mirrored", {"ha-mode": "all"})
                table.notes += _measure(cluster, found, _Times(repeats, seconds), say)
        except (NotInstalled, LoadFailed, RuntimeError, OSError) as failure:
            table.failures.append(f"mirrored, {starter}: {failure}")
    for place, results in found.items():
        _add_rows(table, place, results)
    table.notes += _aims(found)
    table.notes += disturbances(m for results in found.values() for m in results.values())
    table.notes.append(
        f"Three nodes, one after the other cluster; median of {repeats} runs of {seconds:g} s. One "
        "publisher with a window of 500 confirms, one consumer with acknowledgements. CPU is that "
        "of all nodes, and of etcd. The last three columns are Warren's relative to that row; a "
        "smaller CPU and p99 are better."
    )
    return table


@dataclass(frozen=True)
class _Times:
    repeats: int
    seconds: float


def _measure(
    cluster: Cluster, found: Found, times: _Times, say: Callable[[str], None]
) -> list[str]:
    """Also says how far the runs that tell the time of a confirm lie apart."""
    spreads = []
    for number, place in enumerate(PLACES):
        for kind in (MIRRORED, QUORUM) if place.node == 0 else (MIRRORED,):
            say(f"mirrored: {cluster.name}, {kind} queue, {place.title}")
            names = [f"{kind}-{number}-{repeat}" for repeat in range(times.repeats)]
            runs = [_run(cluster, place, name, times.seconds) for name in names]
            found[place][(cluster.name, kind)] = median(runs)
            if place.paced:
                each = ", ".join(f"{one.confirm_p99_ms:.1f}" for one in runs)
                spreads.append(f"{place.title}, {cluster.name}, {kind}: p99 of each run {each} ms.")
    return spreads


def _run(cluster: Cluster, place: Place, queue: str, seconds: float) -> Measurement:
    """The queue is declared where it is to be led, before the clients come to their node."""
    arguments = QUORUM_ARGUMENT if queue.startswith(QUORUM) else ""
    named = f"--queue {queue} --durable {arguments} --max-seconds {SECONDS_MAX}"
    home, node = cluster.nodes[0], cluster.nodes[place.node]
    run(home, f"{named} --declare --publish-only --count 1".split())
    run(home, f"{named} --drain --expect 1".split())
    pids = ",".join(map(str, cluster.pids))
    if place.paced:
        os.sync()  # else its confirms wait for the disk to take what the runs before it left
    load = f"{named} --size 1024 {place.load} --delete-after --time {seconds} --broker-pid {pids}"
    return measure(node, load.split())


def _add_rows(table: Table, place: Place, results: Mapping[tuple[str, str], Measurement]) -> None:
    for (cluster, kind), result in results.items():
        ours = results.get(("Warren", kind))
        table.rows.append(
            (
                place.title,
                cluster,
                kind,
                rate(result.rate),
                f"{result.cpu_us:.2f}",
                pair(result.confirm_p50_ms, result.confirm_p99_ms),
                *(_relative(place, ours, result) if ours and ours is not result else ("", "", "")),
            )
        )
        table.notes += losses(f"{place.title}, {cluster}, {kind}", result)


def _relative(place: Place, ours: Measurement, theirs: Measurement) -> tuple[str, str, str]:
    return (
        "" if place.paced else times(ours.rate, theirs.rate),
        times(ours.cpu_us, theirs.cpu_us),
        times(ours.confirm_p99_ms or 0, theirs.confirm_p99_ms) if place.paced else "",
    )


def _aims(found: Found) -> list[str]:
    """What was wanted, and what came of it, in a line each."""
    full, _, paced = (found[place] for place in PLACES)
    lines = []
    for kind, wanted in ((MIRRORED, RATE_WANTED), (QUORUM, RATE_BESIDE_QUORUM_WANTED)):
        theirs, own = full.get((RABBITMQ, kind)), full.get(("Warren", kind))
        if theirs is not None and own is not None:
            ratio = times(own.rate, theirs.rate)
            lines.append(f"Rate beside RabbitMQ's {kind} queue: {ratio} (wanted: {wanted}x).")
    ours = ("Warren", MIRRORED)
    if ours in full:
        cpu = f"{full[ours].cpu_us:.1f} us (wanted: at most {CPU_US_WANTED})"
        lines.append(f"CPU of all nodes per message: {cpu}.")
    if ours in paced:
        p99 = f"{paced[ours].confirm_p99_ms:.1f} ms (wanted: below {CONFIRM_P99_MS_WANTED})"
        lines.append(f"Confirm p99 at 1000 msg/s: {p99}.")
    return lines
