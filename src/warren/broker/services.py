"""What virtual hosts need of the node they live on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from warren.broker.activity import Activity
from warren.broker.events import EventBus
from warren.metadata.store import Lease, MetadataStore
from warren.model.clock import Clock
from warren.model.records import QueueRecord
from warren.queues.boundary import AbstractQueue
from warren.queues.settings import QueueSettings


@dataclass(frozen=True, slots=True)
class Services:
    store: MetadataStore
    # A node's (this one's, if the name is empty): what is put with it is gone when that node is.
    lease_of: Callable[[str], Lease]
    # For what is not durable and belongs to no node, such as an exchange; None in a cluster, where
    # it stays until the last node has ended.
    lease_of_no_node: Callable[[], Lease | None]
    # Whether a queue that is not durable has, or will have, copies to live on in without its home.
    outlives_home: Callable[[QueueRecord], bool]
    # Whether a mirrored queue is down: its messages are on the disk of a node that does not run.
    is_masterless: Callable[[QueueRecord], bool]
    make_queue: Callable[[QueueRecord, QueueSettings], AbstractQueue]
    # 22 characters that nobody can guess, for the names of queues.
    new_token: Callable[[], str]
    # Raises if a virtual host (first) that has so many queues (third) may not have another one.
    require_room_for_queue: Callable[[str, str, int], None]
    clock: Clock
    events: EventBus
    activity: Activity
    # Keys that go from the store along with a queue, of that virtual host and name.
    companions: Callable[[str, str], Sequence[str]]
    # Waits until a queue that has been declared has all that it should have.
    until_ready: Callable[[QueueRecord], Awaitable[None]]
    # Which node is to be the home of a new queue, given its policy; empty if there is only one.
    place: Callable[[QueueRecord, Mapping[str, object]], str]
