"""The policies of a virtual host, and which of them applies to what is in it.

What applies is looked up once per object and kept until a policy changes or the object goes: lists
of very many queues show it for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from warren.metadata.keys import KeyKind, ParsedKey
from warren.metadata.policy_codec import decode_policy
from warren.metadata.store import Change
from warren.model.equivalence import alternate_exchange_of
from warren.model.records import ExchangeRecord, Policy, QueueRecord
from warren.policy.matching import PolicySet, Target, TargetKind
from warren.policy.merging import AppliedPolicy, merge
from warren.queues.settings import QueueSettings, queue_type_of, settings_of


class VhostPolicies:
    def __init__(self) -> None:
        self.policies = PolicySet()
        self.operator_policies = PolicySet()
        # By kind and name of the object.
        self._applied: dict[tuple[TargetKind, str], AppliedPolicy] = {}
        # Most objects share what applies to them with many others.
        self._merged: dict[tuple[str | None, str | None], AppliedPolicy] = {}
        # And, without arguments, what they run with; by the names of the two policies.
        self._plain_settings: dict[tuple[str | None, str | None], QueueSettings] = {}

    def take_in(self, changes: Iterable[tuple[ParsedKey, Change]]) -> bool:
        """What the store tells of policies; False if nothing is different now."""
        is_changed = False
        for key, change in changes:
            operator = key.kind is KeyKind.OPERATOR_POLICY
            before = self.operator_policies if operator else self.policies
            policy = None if change.record is None else decode_policy(change.record.value)
            if policy is not None and policy == find_policy(before, policy.name):
                continue
            after = before.without(key.parts[1]) if policy is None else before.with_policy(policy)
            if operator:
                self.operator_policies = after
            else:
                self.policies = after
            is_changed = True
        if is_changed:
            self._applied.clear()
            self._merged.clear()
            self._plain_settings.clear()
        return is_changed

    def of_queue(self, record: QueueRecord) -> AppliedPolicy:
        found = self._applied.get((TargetKind.QUEUE, record.name))
        return self._find(queue_target(record)) if found is None else found

    def of_exchange(self, record: ExchangeRecord) -> AppliedPolicy:
        found = self._applied.get((TargetKind.EXCHANGE, record.name))
        return self._find(exchange_target(record)) if found is None else found

    def forget(self, kind: TargetKind, name: str) -> None:
        """The object is gone; another of that name may be of another type."""
        self._applied.pop((kind, name), None)

    def settings_of(self, record: QueueRecord) -> QueueSettings:
        applied = self.of_queue(record)
        if len(record.arguments):
            return settings_of(record, applied.effective)
        names = _name_of(applied.policy), _name_of(applied.operator_policy)
        settings = self._plain_settings.get(names)
        if settings is None:
            settings = self._plain_settings[names] = settings_of(record, applied.effective)
        return settings

    def alternate_of(self, record: ExchangeRecord) -> str | None:
        """The alternate exchange: the argument's, or else the policy's."""
        argument = alternate_exchange_of(record)
        if argument is not None:
            return argument
        name = self.of_exchange(record).effective.get("alternate-exchange")
        return name if isinstance(name, str) else None

    def _find(self, target: Target) -> AppliedPolicy:
        policy = self.policies.best_for(target)
        operator_policy = self.operator_policies.best_for(target)
        names = _name_of(policy), _name_of(operator_policy)
        applied = self._merged.get(names)
        if applied is None:
            applied = self._merged[names] = merge(policy, operator_policy)
        self._applied[target.kind, target.name] = applied
        return applied


def queue_target(record: QueueRecord) -> Target:
    return Target(TargetKind.QUEUE, record.name, queue_type_of(record.arguments).value)


def exchange_target(record: ExchangeRecord) -> Target:
    return Target(TargetKind.EXCHANGE, record.name)


def find_policy(policies: PolicySet, name: str) -> Policy | None:
    return next((each.policy for each in policies.policies if each.policy.name == name), None)


def _name_of(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name
