"""What virtual hosts need of the node they live on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warren.broker.activity import Activity
from warren.broker.events import EventBus
from warren.metadata.store import Lease, MetadataStore
from warren.model.clock import Clock
from warren.model.records import QueueRecord
from warren.queues.queue import Queue
from warren.queues.settings import QueueSettings


@dataclass(frozen=True, slots=True)
class Services:
    store: MetadataStore
    # The node's own: what is put with it is gone when the node is.
    lease: Callable[[], Lease]
    make_queue: Callable[[QueueRecord, QueueSettings], Queue]
    # 22 characters that nobody can guess, for the names of queues.
    new_token: Callable[[], str]
    # Raises if a virtual host (first) that has so many queues (third) may not have another one.
    require_room_for_queue: Callable[[str, str, int], None]
    clock: Clock
    events: EventBus
    activity: Activity
