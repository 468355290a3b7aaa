"""Exchanges as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.management.arguments import table_to_json
from warren.management.json_types import JsonObject
from warren.management.views.policies import policy_of_exchange
from warren.model.records import ExchangeRecord
from warren.routing.exchange import Exchange

if TYPE_CHECKING:
    from warren.server.node import Node

# Who declared what every virtual host has from the beginning.
_INTERNAL_USER = "rmq-internal"


def describe_exchange(record: ExchangeRecord) -> JsonObject:
    """What it was declared with."""
    return {
        "arguments": table_to_json(record.arguments),
        "auto_delete": record.auto_delete,
        "durable": record.durable,
        "internal": record.internal,
        "name": record.name,
        "type": record.type,
        "user_who_performed_action": record.created_by or _INTERNAL_USER,
        "vhost": record.vhost,
    }


def show_exchange(exchange: Exchange, node: Node) -> JsonObject:
    record = exchange.record
    shown = describe_exchange(record)
    shown.update(policy_of_exchange(record, node))
    if figures := node.statistics.of_exchange(record.vhost, record.name):
        shown["message_stats"] = figures
    return shown
