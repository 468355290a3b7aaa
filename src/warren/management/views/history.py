"""The past of a figure as RabbitMQ tells it for plots: samples, newest first, and averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from warren.management.json_types import JsonObject
from warren.statistics.history import Sample
from warren.statistics.total_history import TotalSample

Past: TypeAlias = Callable[[str], Sequence[Sample] | Sequence[TotalSample]]
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


def _show(samples: Sequence[Sample] | Sequence[TotalSample]) -> JsonObject:
    if not samples:
        return {"samples": [], "avg": 0.0, "avg_rate": 0.0}
    newest, oldest = samples[0], samples[-1]
    elapsed_ms = newest.timestamp_ms - oldest.timestamp_ms
    grown = newest.value - oldest.value
    return {
        "samples": [show_sample(sample) for sample in samples],
        "avg": sum(sample.value for sample in samples) / len(samples),
        "avg_rate": 1000 * grown / elapsed_ms if elapsed_ms else 0.0,
    }


def show_sample(sample: Sample | TotalSample) -> JsonObject:
    """A total says of how many nodes it is; RabbitMQ's page does not mind."""
    shown: JsonObject = {"sample": sample.value, "timestamp": sample.timestamp_ms}
    return {**shown, "nodes": sample.nodes} if isinstance(sample, TotalSample) else shown
