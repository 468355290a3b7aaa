"""Policies and parameters as JSON; definitions files hold the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.parameter_operations import Parameter
from warren.management.json_types import JsonObject
from warren.model.records import ExchangeRecord, Policy, QueueRecord
from warren.policy.merging import NO_POLICY, AppliedPolicy

if TYPE_CHECKING:
    from warren.server.node import Node


def show_policy(policy: Policy) -> JsonObject:
    return {
        "vhost": policy.vhost,
        "name": policy.name,
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def show_parameter(parameter: Parameter) -> JsonObject:
    return {
        "value": parameter.value,
        "vhost": parameter.vhost,
        "component": parameter.component,
        "name": parameter.name,
    }


def policy_of_queue(record: QueueRecord, node: Node) -> JsonObject:
    vhost = node.broker.vhosts.get(record.vhost)
    applied = NO_POLICY if vhost is None else vhost.policies.of_queue(record)
    return {
        "effective_policy_definition": dict(applied.effective),
        "operator_policy": _name(applied.operator_policy),
        "policy": _name(applied.policy),
    }


def policy_of_exchange(record: ExchangeRecord, node: Node) -> JsonObject:
    """Where RabbitMQ has none it shows none, unlike for queues."""
    vhost = node.broker.vhosts.get(record.vhost)
    applied: AppliedPolicy = NO_POLICY if vhost is None else vhost.policies.of_exchange(record)
    name = _name(applied.policy)
    return {} if name is None else {"policy": name}


def _name(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name
