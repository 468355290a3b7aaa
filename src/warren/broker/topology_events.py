"""What is told of exchanges, queues and bindings that come and go."""

from __future__ import annotations

from warren.broker.events import INTERNAL_USER, EventBus, Properties, shown_arguments
from warren.broker.removal import Removal
from warren.model.records import BindingRecord, DestinationKind, ExchangeRecord, QueueRecord


def exchange_created(events: EventBus, record: ExchangeRecord, policy: str = "") -> None:
    events.tell(
        "exchange.created",
        lambda: {
            "policy": policy,
            "arguments": shown_arguments(record.arguments),
            "internal": record.internal,
            "auto_delete": record.auto_delete,
            "durable": record.durable,
            "type": record.type,
            "name": record.name,
            "vhost": record.vhost,
        },
    )


def queue_created(events: EventBus, record: QueueRecord) -> None:
    events.tell(
        "queue.created",
        lambda: {
            "exclusive": record.exclusive,
            "owner_pid": record.owner or "",
            "arguments": shown_arguments(record.arguments),
            "auto_delete": record.auto_delete,
            "durable": record.durable,
            "name": record.name,
            "vhost": record.vhost,
        },
    )


def binding_created(events: EventBus, binding: BindingRecord) -> None:
    events.tell("binding.created", lambda: _binding(binding))


def removed(events: EventBus, vhost: str, removal: Removal, by: str | None = None) -> None:
    """Tell what was removed, bindings by the user `by` if one is named.

    What goes along with something else goes by nobody's order.
    """
    is_own = not removal.queues and not removal.exchanges
    if by is None and not is_own:
        by = INTERNAL_USER
    for binding in removal.bindings:
        _binding_deleted(events, binding, by)
    for kind, names in (("queue", removal.queues), ("exchange", removal.exchanges)):
        for name in names:
            _deleted(events, f"{kind}.deleted", vhost, name)


def _binding_deleted(events: EventBus, binding: BindingRecord, by: str | None) -> None:
    events.tell("binding.deleted", lambda: _binding(binding), by)


def _deleted(events: EventBus, event: str, vhost: str, name: str) -> None:
    events.tell(event, lambda: {"name": name, "vhost": vhost})


def _binding(binding: BindingRecord) -> Properties:
    is_queue = binding.destination.kind is DestinationKind.QUEUE
    return {
        "vhost": binding.vhost,
        "arguments": shown_arguments(binding.arguments),
        "routing_key": binding.routing_key,
        "destination_kind": "queue" if is_queue else "exchange",
        "destination_name": binding.destination.name,
        "source_kind": "exchange",
        "source_name": binding.source,
    }
