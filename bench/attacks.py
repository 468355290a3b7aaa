"""Attacks of the security audit, and what a tenant who has nothing to do with them notices.

The tenant is b-app in virtual host b: it publishes a message, waits for the confirm, and does so
again after 4 ms. The attackers work in virtual host a or are not logged in at all. Attackers,
tenant and broker are processes of one machine, where attackers get what processor time the others
leave (they would not be on the broker's machine); what else they compete for is in the figures.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

from bench import attackers
from bench.apart import Apart
from bench.attackers import Attack, Target
from bench.brokers import Broker, NotInstalled, free_port, warren
from bench.clusters import etcd
from bench.probe import Probe, Waits
from bench.report import Table
from bench.tenants import QUEUES, admit_tenants

COLUMNS: Final = (
    "meanwhile", "confirm p50 ms", "p99 ms", "worst ms", "RSS MiB, at most", "the attacker got",
)  # fmt: skip
OUTCOMES_SHOWN_MAX: Final = 3
NICENESS: Final = 19
MEMORY_LOOK_S: Final = 0.1
STOP_S_MAX: Final = 20.0
STOP_AFTER_S: Final = 1.0
P99_TIMES_MAX: Final = 2.0
WORST_MS_MAX: Final = 100.0

_Row: TypeAlias = tuple[str, Attack | None, int]
"""A title, an attack, and how many processes do it at once."""
ROWS: Final[Sequence[_Row]] = (
    ("no attack: overviews, one by one", attackers.overviews, 1),
    ("C1 patterns of policies", attackers.policy_patterns, 1),
    ("C1 patterns of permissions", attackers.permission_patterns, 1),
    ("H1 list filters, a hard name", attackers.hard_filters, 1),
    ("H1 list filters, long names", attackers.filters_of_many, 1),
    ("H2 login forms of 10 MB", attackers.large_login_forms, 1),
    ("H3 60 logins with 10 MB names", attackers.long_names, 1),
    ("M1 1010 half-sent requests", attackers.half_sent_requests, 1),
    ("M3 flood after a refused login", attackers.flood_after_refusal, 1),
    ("M3 the same, 8 connections", attackers.flood_after_refusal, 8),
    ("M7 JSON bodies of 10 MB", attackers.large_json, 1),
)
IDLE_LINKS: Final[_Row] = ("L7 3000 idle links", attackers.idle_links, 1)
WHILE_STOPPING: Final = (attackers.filters_of_many, attackers.half_sent_requests)


def attacks(seconds: float, say: Callable[[str], None]) -> Table:
    table = Table("Attacks", COLUMNS)
    bench = _Bench(table, seconds, say)
    with warren() as broker:
        bench.measure(broker, Target(broker.port, broker.http_port), "quiet", ROWS)
    try:
        with _cluster_of_one() as (broker, target):
            bench.measure(broker, target, "quiet, with etcd", (IDLE_LINKS,))
    except NotInstalled as missing:
        table.notes.append(f"Not installed, so no links: {missing}.")
    table.notes.append(
        f"A tenant publishes every 4 ms and waits for the confirm, for {seconds:g} s a row, while "
        f"others attack. {QUEUES} queues. RSS is how much more the broker held at most than before "
        f"the row. All are on one machine, the attackers with low priority (nice {NICENESS})."
    )
    return table


@contextmanager
def _cluster_of_one() -> Iterator[tuple[Broker, Target]]:
    """A node with a port for other nodes, which only a node with etcd has."""
    with TemporaryDirectory(prefix="warren-bench-") as directory, ExitStack() as stack:
        etcd_port, _ = stack.enter_context(etcd(Path(directory)))
        cluster_port = free_port()
        options = ["--metadata", f"etcd://127.0.0.1:{etcd_port}"]
        options += ["--cluster-secret", secrets.token_hex(16), "--cluster-port", str(cluster_port)]
        broker = stack.enter_context(warren(options))
        yield broker, Target(broker.port, broker.http_port, cluster_port)


@dataclass(frozen=True)
class _Bench:
    table: Table
    seconds: float
    say: Callable[[str], None]

    def measure(
        self, broker: Broker, target: Target, quiet: str, attacking: Sequence[_Row]
    ) -> None:
        """Add one row each, after one without an attack, whose title is `quiet`; then stop it."""
        admit_tenants(target)
        limit_s = P99_TIMES_MAX * self._row(broker, target, (quiet, None, 0)).at(0.99)
        for row in attacking:
            waits = self._row(broker, target, row)
            if waits.at(0.99) > limit_s:
                self.table.notes.append(f"p99 is over twice its quiet value: {row[0]}.")
            if waits.at(1) * 1000 > WORST_MS_MAX:
                self.table.failures.append(f"{row[0]}: somebody waited over {WORST_MS_MAX:g} ms")
        self.say("attacks: SIGTERM")
        self.table.notes.append(_stopped(broker, target, self.seconds))

    def _row(self, broker: Broker, target: Target, row: _Row) -> Waits:
        title, attack, count = row
        self.say(f"attacks: {title}")
        with _Memory(broker) as memory, Probe(target.login("b-app")) as probe:
            got = _attack(attack, count, target, self.seconds)
        grown = f"{memory.grown_kb / 1024:+.0f}"
        self.table.rows.append((title, *probe.waits.shown_ms(), grown, got))
        return probe.waits


def _attack(attack: Attack | None, count: int, target: Target, seconds: float) -> str:
    if attack is None:
        time.sleep(seconds)
        return ""
    running = [_attacking(attack, target, seconds) for _ in range(count)]
    got = [each.result() for each in running]
    return "; ".join(dict.fromkeys(got)) if len(got) < OUTCOMES_SHOWN_MAX else f"{got[0]}, each"


def _attacking(attack: Attack, target: Target, seconds: float) -> Apart[str]:
    return Apart(_with_low_priority, attack, target, seconds)


def _with_low_priority(pipe: Connection, attack: Attack, target: Target, seconds: float) -> str:
    os.nice(NICENESS)
    return attack(pipe, target, seconds)


class _Memory:
    """The most that the broker holds within `with`, looked at ten times a second."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._before_kb = self._most_kb = broker.rss_kb()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    @property
    def grown_kb(self) -> int:
        return self._most_kb - self._before_kb

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(MEMORY_LOOK_S):
            self._most_kb = max(self._most_kb, self._broker.rss_kb())


def _stopped(broker: Broker, target: Target, seconds: float) -> str:
    """Send SIGTERM in the middle of attacks; say how long the node took to end."""
    attacking = [_attacking(attack, target, seconds) for attack in WHILE_STOPPING]
    time.sleep(STOP_AFTER_S)
    began = time.monotonic()
    os.kill(broker.pid, signal.SIGTERM)
    while not os.waitpid(broker.pid, os.WNOHANG)[0]:
        if time.monotonic() - began > STOP_S_MAX:
            outcome = f"SIGTERM under attack: still running after {STOP_S_MAX:g} s."
            break
        time.sleep(0.01)
    else:
        outcome = f"SIGTERM under attack: ended after {time.monotonic() - began:.1f} s."
    for each in attacking:
        each.end()
    return outcome
