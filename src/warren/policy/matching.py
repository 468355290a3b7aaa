"""Which policy applies: of those that match, the one of the highest priority, and never two.

Equal priorities are decided by name, where RabbitMQ leaves it to the order of a table.

A stored policy whose pattern cannot be used applies to nothing, and says why in `problem`: no
policy keeps a node from starting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from warren.model.logs import EventLog
from warren.model.records import Policy
from warren.model.regular_expressions import InvalidPattern, RegularExpression, compile_pattern

_MIRRORING: Final = frozenset(
    {"ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"}
)
_STREAMS_ALONE: Final = frozenset(
    {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
)
# A policy that has one of these does not apply to a queue of the type at all.
_UNSUPPORTED: Final = {
    "classic": _STREAMS_ALONE | {"queue-leader-locator", "delivery-limit", "dead-letter-strategy"},
    "quorum": _STREAMS_ALONE | _MIRRORING | {"queue-mode", "queue-master-locator"},
    "stream": {
        "expires",
        "message-ttl",
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "max-length",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "overflow",
        "queue-mode",
        "delivery-limit",
        "queue-master-locator",
    },
}
_log: Final = EventLog("policy")
_QUEUE_TYPES: Final = {"classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream"}


class TargetKind(Enum):
    QUEUE = "queue"
    EXCHANGE = "exchange"


@dataclass(frozen=True, slots=True)
class Target:
    """What a policy may apply to; `queue_type` is empty for an exchange."""

    kind: TargetKind
    name: str
    queue_type: str = ""


class CompiledPolicy:
    __slots__ = ("_invalid", "_pattern", "policy")

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._invalid = ""
        self._pattern: RegularExpression | None = None
        owner = f"policy '{policy.name}' in vhost '{policy.vhost}'"
        try:
            self._pattern = compile_pattern(policy.pattern, owner)
        except InvalidPattern as error:
            self._invalid = error.reason
            _log.warning(
                "pattern given up", owner=owner, pattern=policy.pattern, reason=error.reason
            )

    @property
    def problem(self) -> str:
        """Why the pattern matches nothing, though it may look as if it did; mostly empty."""
        return self._invalid if self._pattern is None else self._pattern.problem

    def applies(self, target: Target, octets: bytes) -> bool:
        """Quickly, since most policies are not for most objects; `octets` are the target's name."""
        pattern = self._pattern
        return pattern is not None and pattern.matches(octets) and self.objection(target) is None

    def objection(self, target: Target) -> str | None:
        """Why the policy cannot apply to this; None if it can."""
        if not _is_meant(self.policy.apply_to, target):
            return f"it applies to {self.policy.apply_to}"
        if self._pattern is None or not self._pattern.matches_name(target.name):
            if self.problem:
                return f"its pattern '{self.policy.pattern}' cannot be used: {self.problem}"
            return f"its pattern '{self.policy.pattern}' does not match the name"
        unsupported = _UNSUPPORTED.get(target.queue_type, frozenset()) & {*self.policy.definition}
        if unsupported:
            return f"{target.queue_type} queues do not support {', '.join(sorted(unsupported))}"
        return None


class PolicySet:
    """The policies of a virtual host, or its operator policies, the strongest first."""

    def __init__(self, policies: Iterable[Policy] = ()) -> None:
        self.policies = _in_order(map(CompiledPolicy, policies))

    def best_for(self, target: Target) -> Policy | None:
        octets = target.name.encode(errors="surrogateescape")
        for compiled in self.policies:
            if compiled.applies(target, octets):
                return compiled.policy
        return None

    def with_policy(self, policy: Policy) -> PolicySet:
        """The same with one more, or another of that name."""
        changed = self.without(policy.name)
        changed.policies = _in_order([*changed.policies, CompiledPolicy(policy)])
        return changed

    def without(self, name: str) -> PolicySet:
        """The others, compiled as they are: a pattern that was given up is not tried again."""
        changed = PolicySet()
        changed.policies = tuple(each for each in self.policies if each.policy.name != name)
        return changed

    def problem_of(self, name: str) -> str:
        """Why the pattern of this policy matches nothing; empty if there is no problem."""
        return next((each.problem for each in self.policies if each.policy.name == name), "")


def _in_order(policies: Iterable[CompiledPolicy]) -> tuple[CompiledPolicy, ...]:
    return tuple(sorted(policies, key=lambda each: (-each.policy.priority, each.policy.name)))


def _is_meant(apply_to: str, target: Target) -> bool:
    if apply_to == "all":
        return True
    if target.kind is TargetKind.EXCHANGE:
        return apply_to == "exchanges"
    return apply_to == "queues" or _QUEUE_TYPES.get(apply_to) == target.queue_type
