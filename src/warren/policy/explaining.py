"""Why a queue or an exchange has the settings it has: what operators ask first when one surprises.

A value may come from the argument given at the declare, from the policy or from the operator
policy. Which of them holds is decided elsewhere (`merging`, `queues/settings`) and retold here:
of limits and times the smallest, of the rest the argument before the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warren.model.json_terms import JsonValue
from warren.policy.matching import PolicySet, Target
from warren.policy.merging import AppliedPolicy, find_applied

# The keys that can be given as an argument, too.
SMALLEST_HOLDS: Final = frozenset(
    {"message-ttl", "expires", "max-length", "max-length-bytes", "delivery-limit"}
)
ARGUMENT_HOLDS: Final = frozenset(
    {
        "alternate-exchange",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "overflow",
        "queue-master-locator",
        "queue-mode",
        "queue-version",
    }
)


class Origin(Enum):
    ARGUMENT = "argument"
    POLICY = "policy"
    OPERATOR_POLICY = "operator policy"


@dataclass(frozen=True, slots=True)
class Source:
    """`policy` is the name of the policy that sets the value; empty for an argument."""

    origin: Origin
    policy: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    key: str
    value: JsonValue
    origin: Origin
    policy: str
    # Others that set the key, too, and did not prevail.
    overridden: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why one of the virtual host's policies applies or does not."""

    policy: str
    is_operator_policy: bool
    priority: int | float
    applies: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    applied: AppliedPolicy
    values: tuple[EffectiveValue, ...]
    verdicts: tuple[Verdict, ...]


def explain(
    policies: PolicySet,
    operator_policies: PolicySet,
    target: Target,
    arguments: Mapping[str, JsonValue],
) -> Explanation:
    """`arguments` are those of the keys above, under their names in a policy."""
    applied = find_applied(policies, operator_policies, target)
    return Explanation(
        applied,
        tuple(effective_values(applied, arguments)),
        (*_verdicts(policies, target, False), *_verdicts(operator_policies, target, True)),
    )


def effective_values(
    applied: AppliedPolicy, arguments: Mapping[str, JsonValue]
) -> Iterable[EffectiveValue]:
    for key in sorted({*applied.effective, *arguments}):
        sources = [*_sources(key, applied, arguments)]
        chosen = _prevailing(key, sources, applied.effective.get(key))
        others = tuple(source for source in sources if source is not chosen)
        yield EffectiveValue(key, chosen.value, chosen.origin, chosen.policy, others)


def _sources(
    key: str, applied: AppliedPolicy, arguments: Mapping[str, JsonValue]
) -> Iterable[Source]:
    if key in arguments:
        yield Source(Origin.ARGUMENT, "", arguments[key])
    for origin, policy in (
        (Origin.POLICY, applied.policy),
        (Origin.OPERATOR_POLICY, applied.operator_policy),
    ):
        if policy is not None and key in policy.definition:
            yield Source(origin, policy.name, policy.definition[key])


def _prevailing(key: str, sources: list[Source], merged: JsonValue) -> Source:
    """`merged` is what the two policies say together; the earlier source is named if equal."""
    argument = sources[0] if sources[0].origin is Origin.ARGUMENT else None
    of_policies = next((s for s in sources if s is not argument and s.value == merged), None)
    if argument is None:
        assert of_policies is not None, "what is merged comes from one of them"
        return of_policies
    if of_policies is None or key not in SMALLEST_HOLDS:
        return argument
    return min(argument, of_policies, key=_number)


def _number(source: Source) -> float:
    return source.value if isinstance(source.value, int | float) else float("inf")


def _verdicts(policies: PolicySet, target: Target, is_operator: bool) -> Iterable[Verdict]:
    winner: str | None = None
    for compiled in policies.policies:
        policy = compiled.policy
        objection = compiled.objection(target)
        applies = objection is None and winner is None
        if applies:
            winner = policy.name
            reason = "it is the strongest of those that match"
        else:
            reason = objection or f"'{winner}' is stronger"
        yield Verdict(policy.name, is_operator, policy.priority, applies, reason)
