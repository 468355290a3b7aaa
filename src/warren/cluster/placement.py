"""Placement of a new queue: which node is its master, by RabbitMQ's locators.

Classic queues go by `queue-master-locator`, quorum queues and streams by `queue-leader-locator`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warren.model.records import QueueRecord
from warren.queues.settings import QueueType, queue_type_of

MASTER_LOCATOR: Final = "queue-master-locator"
LEADER_LOCATOR: Final = "queue-leader-locator"


class Locator(Enum):
    MIN_MASTERS = "min-masters"
    CLIENT_LOCAL = "client-local"
    RANDOM = "random"


# The last two are what leaders have for the same.
_LOCATORS: Final = {
    **{locator.value: locator for locator in Locator},
    "balanced": Locator.MIN_MASTERS,
    "least-leaders": Locator.MIN_MASTERS,
}


@dataclass(frozen=True, slots=True)
class LocatorDefaults:
    """The configuration's locators: of classic queues, and of quorum queues and streams."""

    master: str = "client-local"
    leader: str = "client-local"


def locator_of(
    record: QueueRecord, policy: Mapping[str, object], defaults: LocatorDefaults
) -> Locator:
    """The argument, then the policy, then the configuration; what makes no sense is passed over."""
    is_classic = queue_type_of(record.arguments) is QueueType.CLASSIC
    key = MASTER_LOCATOR if is_classic else LEADER_LOCATOR
    field = record.arguments.get(f"x-{key}")
    value = None if field is None else field.value
    argument = value.decode(errors="replace") if isinstance(value, bytes) else None
    for wanted in (argument, policy.get(key)):
        if isinstance(wanted, str) and wanted in _LOCATORS:
            return _LOCATORS[wanted]
    return _LOCATORS[defaults.master if is_classic else defaults.leader]


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
