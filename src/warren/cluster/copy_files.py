"""Copy files: what this node's disk has of a mirrored queue, one backing or one per priority.

A stream's copy is its log. All else that differs between streams and other queues, as far as
copies are concerned, is here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warren.broker.queue_host import QueueFactory, levels_of
from warren.broker.vhost import VirtualHost
from warren.cluster.kept_copies import Levels
from warren.model.records import QueueName
from warren.queues.backing import BackingQueue
from warren.queues.settings import QueueSettings, QueueType
from warren.replication.classic.mirror import Mirror
from warren.replication.replica import Replica
from warren.replication.stream.stream_master import StreamMaster
from warren.replication.stream.stream_mirror import StreamMirror
from warren.storage.queue.variable_queue import VariableQueue
from warren.storage.vhost_storage import VhostStorage, level_name
from warren.streams.log import StreamLog
from warren.streams.queue import limits_of


class CopyFiles:
    """`factory` has the virtual hosts of this node, and the storage of each."""

    def __init__(self, factory: QueueFactory) -> None:
        self._factory = factory

    @property
    def _vhosts(self) -> Mapping[str, VirtualHost]:
        return self._factory.vhosts

    @property
    def _storages(self) -> Mapping[str, VhostStorage]:
        return self._factory.storages

    def is_open(self, vhost: str) -> bool:
        return vhost in self._storages

    def is_stream(self, name: QueueName) -> bool:
        return self._settings_of(name).queue_type is QueueType.STREAM

    def recovered(self, name: QueueName) -> Levels:
        """Return what the disk had of the queue when this node started."""
        if self.is_stream(name):
            return {0: self.log_of(name)}
        numbers = [0]
        if self._has_levels(name):
            # A copy without messages is a copy, too: the queue may wait for it.
            numbers = self._storages[name[0]].recovered_levels(name[1]) or [0]
        return {number: self._recovered_level(name, number) for number in numbers}

    def _recovered_level(self, name: QueueName, number: int) -> VariableQueue:
        """Open a level; its next number is the one after all that the disk has ever had."""
        file_name = level_name(name[1], number) if self._has_levels(name) else name[1]
        storage = self._storages[name[0]]
        used_from, used_below = storage.used_from(file_name), storage.used_below(file_name)
        level = self.level(name, number)
        level.begins_at, level.next_sequence = used_from, used_below
        return level

    def level(self, name: QueueName, number: int) -> VariableQueue:
        settings = self._settings_of(name)
        file_name = name[1] if settings.top_level is None else level_name(name[1], number)
        record = self._vhosts[name[0]].queues[name[1]].record
        backing = self._storages[name[0]].backing(file_name, record.durable)
        backing.set_lazy(settings.lazy is True)
        return backing

    def log_of(self, name: QueueName) -> StreamLog:
        """Return the stream's log, with what the disk had of it at the start."""
        log = self._factory.streams[name[0]].log(name[1])
        log.limits = limits_of(self._settings_of(name))
        return log

    def backing_of(
        self, name: QueueName, mirror: Mirror, make_level: Callable[[int], VariableQueue]
    ) -> BackingQueue:
        """Return what a queue keeps its messages in that goes on with a mirror's."""
        backing = levels_of(self._settings_of(name), make_level)
        if backing is None:
            return mirror.levels[0] if 0 in mirror.levels else make_level(0)
        for number, level in mirror.levels.items():
            backing.add_level(number, level)
        return backing

    def _has_levels(self, name: QueueName) -> bool:
        return self._settings_of(name).top_level is not None

    def _settings_of(self, name: QueueName) -> QueueSettings:
        vhost = self._vhosts[name[0]]
        return vhost.policies.settings_of(vhost.queues[name[1]].record)


def stream_copy_of(replica: Replica) -> StreamLog | None:
    """Return the log of a stream's replica; None if it is one of another queue."""
    if isinstance(replica.master, StreamMaster):
        return replica.master.log
    return replica.mirror.log if isinstance(replica.mirror, StreamMirror) else None
