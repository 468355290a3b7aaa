"""What a policy and an operator policy say together: the effective policy definition.

Where both set a key, the operator means to limit: the smaller number holds. Of mirroring it is the
larger demand that holds, since that is the safer one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from warren.model.json_terms import JsonValue
from warren.model.records import Policy
from warren.policy.matching import PolicySet, Target

_SMALLER_HOLDS: Final = frozenset(
    {
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
    }
)
_MODE_RANKS: Final = {"all": 3, "exactly": 2, "nodes": 1}


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """What applies to a queue or an exchange."""

    policy: Policy | None = None
    operator_policy: Policy | None = None
    effective: Mapping[str, JsonValue] = field(default_factory=dict)


NO_POLICY: Final = AppliedPolicy()


def find_applied(
    policies: PolicySet, operator_policies: PolicySet, target: Target
) -> AppliedPolicy:
    return merge(policies.best_for(target), operator_policies.best_for(target))


def merge(policy: Policy | None, operator_policy: Policy | None) -> AppliedPolicy:
    if policy is None and operator_policy is None:
        return NO_POLICY
    ours = {} if policy is None else policy.definition
    theirs = {} if operator_policy is None else operator_policy.definition
    return AppliedPolicy(policy, operator_policy, merge_definitions(ours, theirs))


def merge_definitions(
    definition: Mapping[str, JsonValue], operator_definition: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Sorted by key."""
    merged: dict[str, JsonValue] = {}
    for key in sorted({*definition, *operator_definition}):
        if key not in operator_definition:
            merged[key] = definition[key]
        elif key not in definition:
            merged[key] = operator_definition[key]
        else:
            merged[key] = _stronger(key, definition[key], operator_definition[key])
    return merged


def _stronger(key: str, ours: JsonValue, operators: JsonValue) -> JsonValue:
    if key in _SMALLER_HOLDS and isinstance(ours, int) and isinstance(operators, int):
        return min(ours, operators)
    if key == "ha-mode":
        return max(operators, ours, key=_mode_rank)
    if key == "ha-params":
        return max(operators, ours, key=_params_rank)
    return operators


def _mode_rank(mode: JsonValue) -> int:
    return _MODE_RANKS.get(mode, 0) if isinstance(mode, str) else 0


def _params_rank(params: JsonValue) -> tuple[int, int]:
    """A number beats a list; the larger number and the longer list win."""
    if isinstance(params, int):
        return 1, params
    return 0, len(params) if isinstance(params, list | tuple) else 0
