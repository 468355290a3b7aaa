"""Which nodes are short of what, and since when.

One board serves a whole cluster: an alarm belongs to a node and a resource, publishers everywhere
stop while any node has one, and a resource is free again only when the last node's alarm for it is
off (rabbitmq-server#379: one node's all-clear must not speak for the others).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from warren.model.clock import Clock


class Resource(Enum):
    MEMORY = "memory"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Alarm:
    node: str
    resource: Resource
    since_s: int
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class AlarmChange:
    alarm: Alarm
    is_set: bool
    is_last: bool
    """No node has this resource's alarm any more."""


Listener: TypeAlias = Callable[[AlarmChange], None]


class AlarmBoard:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._alarms: dict[tuple[str, Resource], Alarm] = {}
        self.listeners: list[Listener] = []
        self.resources: frozenset[Resource] = frozenset()
        """What any node is short of."""

    @property
    def alarms(self) -> list[Alarm]:
        """Longest standing first."""
        return list(self._alarms.values())

    def is_set(self, node: str, resource: Resource) -> bool:
        return (node, resource) in self._alarms

    def set(self, node: str, resource: Resource, since_s: int | None = None) -> None:
        """Since now, unless another node says since when."""
        if (node, resource) in self._alarms:
            return
        alarm = Alarm(node, resource, self._clock.wall_seconds() if since_s is None else since_s)
        self._alarms[node, resource] = alarm
        self._changed(alarm, True)

    def clear(self, node: str, resource: Resource) -> None:
        alarm = self._alarms.pop((node, resource), None)
        if alarm is not None:
            self._changed(alarm, False)

    def forget_node(self, node: str) -> None:
        """It is gone, and what it was short of with it."""
        for resource in Resource:
            self.clear(node, resource)

    def _changed(self, alarm: Alarm, is_set: bool) -> None:
        self.resources = frozenset(known.resource for known in self._alarms.values())
        assert is_set == self.is_set(alarm.node, alarm.resource)
        change = AlarmChange(alarm, is_set, alarm.resource not in self.resources)
        for listener in self.listeners:
            listener(change)


def blocked_reason(resources: Iterable[Resource]) -> str:
    """What connection.blocked says, in the order RabbitMQ names the two."""
    return "low on " + " & ".join(sorted(resource.value for resource in resources))
