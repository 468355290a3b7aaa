"""Fairness: how long a client waits for confirms while another one does something large."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.brokers import STARTERS, Broker, NotInstalled
from bench.fairness_attacks import Attacker
from bench.fairness_probe import PAUSE_S, Probe, watching
from bench.report import Table

MESSAGES: Final = 400_000
BINDINGS: Final = 50_000
QUEUES: Final = 20_000
QUIET_S: Final = 3.0
COLUMNS: Final = ("broker", "meanwhile", "it took s", "confirm p50 ms", "p99 ms", "worst ms")

Step = tuple[str, Callable[[], object], Callable[[], object]]


def fairness(names: Sequence[str], share: float, say: Callable[[str], None]) -> Table:
    table = Table("Fairness", COLUMNS)
    for name in names:
        try:
            with STARTERS[name]() as broker:
                table.rows += _measured(broker, share, say)
        except NotInstalled as missing:
            table.notes.append(f"Not installed: {missing}.")
    table.notes.append(
        f"A client publishes a persistent message every {PAUSE_S * 1000:.0f} ms and waits for its "
        "confirm. Another one "
        f"does each of these: {share * MESSAGES:,.0f} messages, {share * BINDINGS:,.0f} bindings, "
        f"{share * QUEUES:,.0f} queues."
    )
    return table


def _measured(broker: Broker, share: float, say: Callable[[str], None]) -> list[Sequence[str]]:
    rows = []
    attacker = Attacker(broker)
    for title, prepare, act in _steps(broker, attacker, share):
        say(f"fairness: {broker.name}: {title}")
        prepare()
        with watching(broker) as probe:
            act()
        rows.append(_row(broker, title, probe))
    attacker.close()
    return rows


def _steps(broker: Broker, it: Attacker, share: float) -> list[Step]:
    """What is prepared for each, and what is done while confirms are timed."""
    messages, bindings = int(share * MESSAGES), int(share * BINDINGS)
    queues = int(share * QUEUES)
    steps: list[Step] = [
        ("nothing else", _nothing, lambda: time.sleep(QUIET_S)),
        ("nack of all, requeued", lambda: it.hold(messages), it.nack),
        ("purge", _nothing, it.purge),
        ("acknowledgement of all", lambda: it.hold(messages), it.ack),
        ("deletion of a queue", lambda: it.fill(messages), it.delete_queue),
        ("purge of persistent messages", lambda: it.fill(messages, True), it.purge),
        ("deletion of a queue of these", lambda: it.fill(messages, True), it.delete_queue),
        ("deletion of an exchange", lambda: it.bind(bindings, 1), it.delete_exchange),
        ("a publish to many queues", lambda: it.bind(queues, queues), it.publish_widely),
    ]
    if broker.http_port:
        steps.append(
            ("import of definitions", _nothing, lambda: it.import_bindings("imported", bindings))
        )
    return steps


def _nothing() -> None:
    """Everything is there."""


def _row(broker: Broker, title: str, probe: Probe) -> Sequence[str]:
    figures = (probe.quantile(0.5), probe.quantile(0.99), probe.quantile(1.0))
    return (broker.name, title, f"{probe.took_s:.1f}", *(f"{s * 1000:.1f}" for s in figures))
