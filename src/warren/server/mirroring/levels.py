"""The files of a copy of a mirrored queue: one backing, or one for each priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warren.server.mirroring.stream_copies import is_stream, log_of
from warren.storage.variable_queue import VariableQueue
from warren.storage.vhost_storage import level_name

if TYPE_CHECKING:
    from warren.server.mirroring.mirrors import Mirrors
    from warren.server.mirroring.replica_host import QueueName


def recovered_levels(mirrors: Mirrors, name: QueueName) -> dict[int, VariableQueue]:
    """What the disk had at the start."""
    if is_stream(mirrors, name):
        log: Any = log_of(mirrors, name)
        return {0: log}
    numbers = [0]
    if mirrors.settings_of(name).top_level is not None:
        numbers = mirrors.storages[name[0]].recovered_levels(name[1])
    return {number: _recovered_level(mirrors, name, number) for number in numbers}


def _recovered_level(mirrors: Mirrors, name: QueueName, number: int) -> VariableQueue:
    """Its next number is the one after all it has ever had: what is higher it never had."""
    has_levels = mirrors.settings_of(name).top_level is not None
    used_below = mirrors.storages[name[0]].used_below(
        level_name(name[1], number) if has_levels else name[1]
    )
    level = make_level(mirrors, name, number)
    level.next_sequence = used_below
    return level


def make_level(mirrors: Mirrors, name: QueueName, number: int) -> VariableQueue:
    settings = mirrors.settings_of(name)
    level = name[1] if settings.top_level is None else level_name(name[1], number)
    record = mirrors.broker.vhosts[name[0]].queues[name[1]].record
    backing = mirrors.storages[name[0]].backing(level, record.durable)
    backing.set_lazy(settings.lazy is True)
    return backing
