"""Placement of a new queue: which node is its master, by RabbitMQ's `queue-master-locator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final

from warren.model.records import QueueRecord

LOCATOR: Final = "queue-master-locator"


class Locator(Enum):
    MIN_MASTERS = "min-masters"
    CLIENT_LOCAL = "client-local"
    RANDOM = "random"


_LOCATORS: Final = {locator.value: locator for locator in Locator}


def locator_of(record: QueueRecord, policy: Mapping[str, object], default: Locator) -> Locator:
    """The argument, then the policy, then the configuration; what makes no sense is passed over."""
    field = record.arguments.get(f"x-{LOCATOR}")
    value = None if field is None else field.value
    argument = value.decode(errors="replace") if isinstance(value, bytes) else None
    for wanted in (argument, policy.get(LOCATOR)):
        if isinstance(wanted, str) and wanted in _LOCATORS:
            return _LOCATORS[wanted]
    return default


def master_for(
    locator: Locator,
    here: str,
    masters: Mapping[str, int],
    choose: Callable[[Sequence[str]], str],
) -> str:
    """`masters`: number of queues that each running node is master of; ties go by name."""
    nodes = sorted(masters)
    if locator is Locator.CLIENT_LOCAL or not nodes:
        return here
    if locator is Locator.RANDOM:
        return choose(nodes)
    return min(nodes, key=lambda node: masters[node])
