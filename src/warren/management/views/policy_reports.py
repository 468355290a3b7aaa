"""Why things have the settings they have, and what a policy would change, as JSON."""

from __future__ import annotations

from warren.broker.policy_reports import PolicyChange
from warren.management.json_types import JsonObject
from warren.model.records import Policy
from warren.policy.explaining import EffectiveValue, Explanation, Verdict
from warren.policy.merging import AppliedPolicy


def show_explanation(explanation: Explanation) -> JsonObject:
    return {
        **_applied(explanation.applied),
        "values": [_value(value) for value in explanation.values],
        "verdicts": [_verdict(verdict) for verdict in explanation.verdicts],
    }


def show_change(change: PolicyChange) -> JsonObject:
    return {
        "kind": change.kind.value,
        "name": change.name,
        "before": _applied(change.before),
        "after": _applied(change.after),
        "values": [
            {"key": value.key, "before": value.before, "after": value.after}
            for value in change.values
        ],
    }


def _applied(applied: AppliedPolicy) -> JsonObject:
    return {
        "policy": _name(applied.policy),
        "operator_policy": _name(applied.operator_policy),
        "effective_policy_definition": dict(applied.effective),
    }


def _name(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


def _value(value: EffectiveValue) -> JsonObject:
    return {
        "key": value.key,
        "value": value.value,
        "origin": value.origin.value,
        "policy": value.policy,
        "overridden": [
            {"origin": source.origin.value, "policy": source.policy, "value": source.value}
            for source in value.overridden
        ],
    }


def _verdict(verdict: Verdict) -> JsonObject:
    return {
        "policy": verdict.policy,
        "kind": "operator policy" if verdict.is_operator_policy else "policy",
        "priority": verdict.priority,
        "applies": verdict.applies,
        "reason": verdict.reason,
    }
