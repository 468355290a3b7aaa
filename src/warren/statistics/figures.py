"""Counts and rates as RabbitMQ writes them into JSON.

Counters come in families: as soon as one of a family is not zero, all of them are shown, and
before that none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from warren.model.counters import (
    EXCHANGE_COUNTERS,
    MESSAGE_COUNTERS,
    ExchangeCounters,
    MessageCounters,
)

Figures: TypeAlias = dict[str, object]

PUBLISHING: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
DELIVERED: Final = ("deliver", "deliver_no_ack", "get", "get_no_ack")
DELIVERING: Final = (*DELIVERED, "deliver_get", "redeliver", "ack", "get_empty")


def with_rates(counts: Mapping[str, int], rates: Mapping[str, float]) -> Figures:
    figures: Figures = {}
    for name, count in counts.items():
        figures[name] = count
        figures[name + "_details"] = {"rate": rates.get(name, 0.0)}
    return figures


def message_figures(
    counters: MessageCounters, families: Sequence[Sequence[str]], rates: tuple[float, ...] | None
) -> Figures:
    """`message_stats`, of those families in which anything has happened."""
    counts = dict(zip(MESSAGE_COUNTERS, counters.values(), strict=True))
    per_second = dict(zip(MESSAGE_COUNTERS, rates or (), strict=False))
    counts["deliver_get"] = sum(counts[name] for name in DELIVERED)
    per_second["deliver_get"] = sum(per_second.get(name, 0.0) for name in DELIVERED)
    shown = [family for family in families if any(counts[name] for name in family)]
    return with_rates({name: counts[name] for family in shown for name in family}, per_second)


def exchange_figures(counters: ExchangeCounters) -> Figures:
    counts = dict(zip(EXCHANGE_COUNTERS, counters.values(), strict=True))
    if not any(counts.values()):
        return {}
    return with_rates(counts, dict(zip(EXCHANGE_COUNTERS, counters.rates or (), strict=False)))
