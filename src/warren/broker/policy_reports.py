"""What policies do, for people: why an object is as it is, what another policy would change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.broker.vhost_policies import exchange_target, queue_target
from warren.model.fields import Table
from warren.model.json_terms import JsonValue
from warren.model.records import ExchangeRecord, QueueRecord
from warren.policy.explaining import (
    ARGUMENT_HOLDS,
    SMALLEST_HOLDS,
    Explanation,
    effective_values,
    explain,
)
from warren.policy.matching import PolicySet, Target, TargetKind
from warren.policy.merging import AppliedPolicy, find_applied

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

_ALTERNATE_EXCHANGE: Final = "alternate-exchange"
_QUEUE_KEYS: Final = sorted((SMALLEST_HOLDS | ARGUMENT_HOLDS) - {_ALTERNATE_EXCHANGE})


@dataclass(frozen=True, slots=True)
class ValueChange:
    """None means that the key is not set."""

    key: str
    before: JsonValue
    after: JsonValue


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What would become of one queue or exchange."""

    kind: TargetKind
    name: str
    before: AppliedPolicy
    after: AppliedPolicy
    values: tuple[ValueChange, ...]


def explain_queue(vhost: VirtualHost, name: str) -> Explanation:
    """Raises KeyError."""
    record = vhost.queues[name].record
    policies = vhost.policies
    return explain(
        policies.policies, policies.operator_policies, queue_target(record), _of_queue(record)
    )


def explain_exchange(vhost: VirtualHost, name: str) -> Explanation:
    """Raises KeyError."""
    record = vhost.exchanges[name].record
    policies = vhost.policies
    return explain(
        policies.policies,
        policies.operator_policies,
        exchange_target(record),
        _of_exchange(record),
    )


def foresee(
    vhost: VirtualHost, policies: PolicySet, operator_policies: PolicySet
) -> Iterator[PolicyChange | None]:
    """What these would change, object by object; None for what stays as it is."""
    for exchange in tuple(vhost.exchanges.values()):
        record = exchange.record
        before = vhost.policies.of_exchange(record)
        after = find_applied(policies, operator_policies, exchange_target(record))
        yield _compare(exchange_target(record), before, after, _of_exchange(record))
    for queue in tuple(vhost.queues.values()):
        target = queue_target(queue.record)
        before = vhost.policies.of_queue(queue.record)
        after = find_applied(policies, operator_policies, target)
        yield _compare(target, before, after, _of_queue(queue.record))


def _compare(
    target: Target, before: AppliedPolicy, after: AppliedPolicy, arguments: dict[str, JsonValue]
) -> PolicyChange | None:
    if before == after:
        return None
    old = {each.key: each.value for each in effective_values(before, arguments)}
    new = {each.key: each.value for each in effective_values(after, arguments)}
    values = tuple(
        ValueChange(key, old.get(key), new.get(key))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    )
    return PolicyChange(target.kind, target.name, before, after, values)


def _of_queue(record: QueueRecord) -> dict[str, JsonValue]:
    return _arguments(record.arguments, {f"x-{key}": key for key in _QUEUE_KEYS})


def _of_exchange(record: ExchangeRecord) -> dict[str, JsonValue]:
    return _arguments(record.arguments, {_ALTERNATE_EXCHANGE: _ALTERNATE_EXCHANGE})


def _arguments(arguments: Table, keys: dict[str, str]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, field in arguments:
        if name in keys and isinstance(field.value, int):
            found.setdefault(keys[name], field.value)
        elif name in keys and isinstance(field.value, bytes):
            found.setdefault(keys[name], field.value.decode(errors="replace"))
    return found
