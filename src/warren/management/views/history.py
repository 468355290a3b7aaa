"""The past of a figure as RabbitMQ tells it for plots: samples, newest first, and averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from warren.management.json_types import JsonObject
from warren.statistics.history import Sample

Past: TypeAlias = Callable[[str], Sequence[Sample]]
"""What is known of a figure with this name."""


def with_samples(figures: Mapping[str, object], past: Past | None) -> JsonObject:
    """Each `name_details` gets the samples of `name`, if the past is asked for."""
    shown: JsonObject = dict(figures)
    if past is None:
        return shown
    for name in figures:
        details = shown.get(f"{name}_details")
        if isinstance(details, dict):
            shown[f"{name}_details"] = {**details, **_show(past(name))}
    return shown


def _show(samples: Sequence[Sample]) -> JsonObject:
    if not samples:
        return {"samples": [], "avg": 0.0, "avg_rate": 0.0}
    newest, oldest = samples[0], samples[-1]
    elapsed_ms = newest.timestamp_ms - oldest.timestamp_ms
    grown = newest.value - oldest.value
    return {
        "samples": [{"sample": s.value, "timestamp": s.timestamp_ms} for s in samples],
        "avg": sum(sample.value for sample in samples) / len(samples),
        "avg_rate": 1000 * grown / elapsed_ms if elapsed_ms else 0.0,
    }
