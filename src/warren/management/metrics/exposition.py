"""Prometheus' text format, version 0.0.4.

All samples of a metric stand together under its head. That is why a list of many objects is gone
through once per metric, and why everything here is a generator: the text of twenty thousand queues
is never in memory as a whole, and the event loop does other things between its pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "rabbitmq_"
COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
UNTYPED: Final = "untyped"
# About a millisecond's work.
SAMPLES_AT_ONCE_MAX: Final = 1_000

T = TypeVar("T")

Number: TypeAlias = int | float
# A text that is a part of the answer; after each the event loop has a turn.
Pieces: TypeAlias = Iterator[str]

_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


@dataclass(frozen=True)
class Metric(Generic[T]):
    """`value` is told of an object, or of whatever has the sum over all of them."""

    name: str
    kind: str
    meaning: str
    value: Callable[[T], Number]

    def head(self, prefix: str) -> str:
        return head_of(prefix + self.name, self.kind, self.meaning)


@dataclass(frozen=True)
class Labelled(Generic[T]):
    """Objects, and for each the labels that tell it apart as `labels_of` writes them."""

    objects: Sequence[T]
    labels: Sequence[str]


def head_of(name: str, kind: str, meaning: str) -> str:
    return f"# TYPE {name} {kind}\n# HELP {name} {meaning}\n"


def labels_of(values: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items())


def write_each(prefix: str, metrics: Sequence[Metric[T]], those: Labelled[T]) -> Pieces:
    """Every metric of every object."""
    for metric in metrics:
        yield metric.head(prefix)
        name, value = prefix + metric.name, metric.value
        for start in range(0, len(those.objects), SAMPLES_AT_ONCE_MAX):
            end = start + SAMPLES_AT_ONCE_MAX
            labelled = zip(those.labels[start:end], those.objects[start:end], strict=True)
            yield "".join([f"{name}{{{labels}}} {value(each)}\n" for labels, each in labelled])


def write_sums(prefix: str, metrics: Sequence[Metric[T]], sums: T) -> Pieces:
    """Every metric of one thing, without labels."""
    yield "".join(
        [f"{metric.head(prefix)}{prefix}{metric.name} {metric.value(sums)}\n" for metric in metrics]
    )
