"""queue.declare and queue.delete, and the three ways in which queues go by themselves.

A queue that may be deleted is hidden before the store is asked: the store takes its time, and what
was found empty and unused must not get messages and consumers meanwhile, only to lose them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from warren.broker.predeclared import require_free_name
from warren.broker.removal import plan_removal
from warren.broker.services import Services
from warren.broker.topology import Topology
from warren.broker.writer import TopologyWriter
from warren.metadata.store import CHECKS_AT_ONCE
from warren.model.errors import (
    QueueGone,
    SoftError,
    connection_forced,
    not_found,
    precondition_failed,
    resource_locked,
)
from warren.model.fields import Field
from warren.model.records import QueueRecord, describe_queue
from warren.queues.arguments import (
    QUEUE_TYPE,
    may_default_to,
    queue_type_of,
    require_same_queue,
    require_server_name_allowed,
    validate_queue,
)
from warren.queues.boundary import AbstractQueue
from warren.queues.queue import Queue

SERVER_NAME_PREFIX: Final = "amq.gen-"


def require_access(record: QueueRecord, connection_id: str) -> None:
    """An exclusive queue is for the connection that declared it."""
    if record.owner not in (None, connection_id):
        raise _locked(record)


def _locked(record: QueueRecord) -> SoftError:
    return resource_locked(
        f"cannot obtain exclusive access to locked {record}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original "
        "declaration."
    )


class QueueOperations:
    def __init__(self, topology: Topology, writer: TopologyWriter, services: Services) -> None:
        self._topology = topology
        self._writer = writer
        self._services = services
        self._creating = 0
        # Exclusive queues on their way to the store, by owner. One whose declare was cancelled
        # stays here until the owner goes: it may still come to be.
        self._arriving: dict[str, set[str]] = {}

    def lookup(self, name: str, connection_id: str) -> AbstractQueue:
        queue = self._topology.queues.get(name)
        if queue is None:
            raise not_found(f"no {describe_queue(name, self._topology.vhost)}")
        require_access(queue.record, connection_id)
        return queue

    def named(self, record: QueueRecord) -> QueueRecord:
        """With the name it will have: the one asked for, if it may be, or one of the server's."""
        if record.name:
            require_free_name("queue", record.name)
            return record
        require_server_name_allowed(record.arguments)
        return replace(record, name=SERVER_NAME_PREFIX + self._services.new_token())

    def typed(self, record: QueueRecord) -> QueueRecord:
        """With the default type, if it has none and can be of it; a queue that exists keeps its."""
        kind = self._services.default_queue_type(self._topology.vhost)
        if not record.name or not may_default_to(kind, record):
            return record
        existing = self._topology.queues.get(record.name)
        if existing is not None and queue_type_of(existing.record.arguments).value != kind:
            return record
        arguments = record.arguments.replacing(QUEUE_TYPE, Field("S", kind.encode()))
        return replace(record, arguments=arguments)

    async def declare(self, record: QueueRecord) -> AbstractQueue:
        """Declare a queue whose name has been vetted."""
        if record.exclusive:
            record = replace(record, durable=False)
        for _ in self._writer.attempts():
            self._writer.require_open()
            existing = self._topology.queues.get(record.name)
            if existing is not None:
                queue = _declare_again(existing, record)
                self._services.activity.churn.queue_declared += 1
                return queue
            self.require_room(record.name)
            validate_queue(record)
            # Once created it exists, and the next time around finds it: unless somebody was quick
            # to delete it, and then it is declared again.
            policy = self._topology.policies.of_queue(record).effective
            record = replace(record, node=self._services.placement.place(record, policy))
            await self._create(record)
            await self._services.placement.until_ready(record)
        raise AssertionError("attempts end by raising")

    async def delete(self, name: str, if_unused: bool, if_empty: bool, connection_id: str) -> int:
        """How many messages were ready in it; deleting what is not there deletes none."""
        self._writer.require_open()
        queue = self._topology.queues.get(name)
        if queue is None:
            return 0
        require_access(queue.record, connection_id)
        if self._services.placement.is_masterless(queue.record):
            if if_empty:  # which nobody can tell
                raise precondition_failed(f"{queue.record} not empty")
            await self._remove([queue])
            return 0
        while self._topology.queues.get(name) is queue:
            try:
                return await queue.delete_if(if_unused, if_empty, lambda: self._remove([queue]))
            except QueueGone:
                await self._writer.settle(name)
        found = self._topology.queues.get(name)
        if found is not None and found.record is queue.record:  # another node is its master now
            return await self.delete(name, if_unused, if_empty, connection_id)
        return 0

    async def settle(self, name: str) -> None:
        """Wait until the local metadata is as new as that of the node that answered Gone."""
        await self._writer.settle(name)

    async def drop_exclusive(self, connection_id: str) -> None:
        for name in sorted(self._arriving.pop(connection_id, ())):
            await self._writer.settle(name)
        names = self._topology.exclusive_queues_of(connection_id)
        while names:
            await self._remove([self._topology.queues[n] for n in names[:CHECKS_AT_ONCE]])
            names = self._topology.exclusive_queues_of(connection_id)

    async def drop_lost(self, is_lost: Callable[[QueueRecord], bool]) -> int:
        queues = [queue for queue in self._topology.queues.values() if is_lost(queue.record)]
        for first in range(0, len(queues), CHECKS_AT_ONCE):
            some = queues[first : first + CHECKS_AT_ONCE]
            there = self._topology.queues
            await self._remove([queue for queue in some if there.get(queue.record.name) is queue])
        return len(queues)

    async def drop_idle(self, queue: Queue) -> None:
        """Delete a queue of this node that nobody uses, unless somebody does by now."""
        is_there = self._topology.queues.get(queue.record.name) is queue
        if is_there and not queue.consumer_count:
            await self._remove([queue])

    async def _create(self, record: QueueRecord) -> None:
        self._creating += 1
        try:
            if record.owner is None:
                is_created = await self._writer.create_queue(record)
            else:
                is_created = await self._create_exclusive(record, record.owner)
            self._services.activity.churn.queue_created += is_created
        finally:
            self._creating -= 1

    async def _create_exclusive(self, record: QueueRecord, owner: str) -> bool:
        arriving = self._arriving.setdefault(owner, set())
        arriving.add(record.name)
        is_created = await self._writer.create_queue(record)
        arriving.discard(record.name)
        if self._arriving.get(owner) is not arriving:
            # Dropped already with all that the owner had; it must not be declared again.
            raise connection_forced(f"the owner of {record} has gone")
        return is_created

    async def _remove(self, queues: Sequence[AbstractQueue]) -> None:
        with self._topology.hiding(queues):
            for _ in self._writer.attempts():
                left = [queue.record.name for queue in queues if self._topology.is_hidden(queue)]
                if await self._writer.remove_first_bindings(queues=left):
                    continue
                if not left or await self._writer.remove(plan_removal(self._topology, left)):
                    return

    def require_room(self, name: str, beside: int = 0) -> None:
        """Refuse a queue too many; `beside`: queues that are about to be created with it."""
        queue_count = len(self._topology.queues) + self._creating + beside
        self._services.require_room_for_queue(self._topology.vhost, name, queue_count)


def _declare_again(queue: AbstractQueue, record: QueueRecord) -> AbstractQueue:
    if queue.record.owner != record.owner:
        raise _locked(queue.record)
    require_same_queue(queue.record, record)
    queue.touch()
    return queue
