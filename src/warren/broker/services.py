"""What virtual hosts need of the node they live on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warren.broker.activity import Activity
from warren.broker.events import EventBus
from warren.broker.placement import Placement
from warren.metadata.store import Lease, MetadataStore
from warren.model.clock import Clock


@dataclass(frozen=True, slots=True)
class Services:
    store: MetadataStore
    # This node's: what is put with it is gone when this node is.
    own_lease: Callable[[], Lease]
    placement: Placement
    # 22 characters that nobody can guess, for the names of queues.
    new_token: Callable[[], str]
    # Raises if a virtual host (first) that has so many queues (third) may not have another one.
    require_room_for_queue: Callable[[str, str, int], None]
    clock: Clock
    events: EventBus
    activity: Activity
    # Keys that go from the store along with a queue, of that virtual host and name.
    companions: Callable[[str, str], Sequence[str]]
    # Type of the queues of a virtual host that are declared without one; empty for classic.
    default_queue_type: Callable[[str], str]

    def lease_of(self, node: str) -> Lease:
        """Return a node's lease, this one's if the name is empty."""
        return self.placement.lease_of(node) or self.own_lease()

    def lease_of_no_node(self) -> Lease | None:
        """Return the lease of what is not durable and belongs to no node, such as an exchange."""
        return self.own_lease() if self.placement.ends_exchanges_with_node else None
