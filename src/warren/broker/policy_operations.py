"""Setting, clearing and looking at policies and operator policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from warren.auth.admin import AdminError, NoSuchVhost
from warren.broker.events import EventBus
from warren.broker.policy_events import policy_cleared, policy_set
from warren.broker.policy_reports import PolicyChange, explain_exchange, explain_queue, foresee
from warren.broker.vhost_policies import find_policy
from warren.metadata.keys import policy_key, vhost_key
from warren.metadata.policy_codec import encode_policy
from warren.metadata.store import (
    Check,
    Delete,
    MetadataStore,
    MetadataUnavailable,
    Operation,
    Put,
    Record,
)
from warren.model.next_turn import NextTurn
from warren.model.records import Policy
from warren.model.regular_expressions import InvalidPattern, compile_pattern
from warren.policy.explaining import Explanation
from warren.policy.matching import PolicySet
from warren.policy.validation import pattern_refused, require_valid

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

# How often somebody else may be quicker before we give up.
ATTEMPTS_MAX: Final = 32
OBJECTS_COMPARED_PER_TURN: Final = 64
# Matching a name takes 20 µs, or the pattern is soon given up.
NAMES_TRIED_PER_TURN: Final = 16


class NoSuchPolicy(AdminError):
    def __init__(self) -> None:
        super().__init__("Parameter does not exist")


class PolicyOperations:
    """All raise NoSuchVhost. What is set is in force, or takes effect in the turns to come."""

    def __init__(
        self, store: MetadataStore, vhosts: Mapping[str, VirtualHost], events: EventBus
    ) -> None:
        self._store = store
        self._vhosts = vhosts
        self._events = events

    async def set(self, policy: Policy, operator: bool = False) -> None:
        """Make or replace it; raises PolicyInvalid. To set what is set already does nothing."""
        self._require_vhost(policy.vhost)
        require_valid(policy, operator)
        if self.get(policy.vhost, policy.name, operator) == policy:
            return
        await self._try_out(policy)
        key = policy_key(policy.vhost, policy.name, operator)
        await self._change(policy.vhost, Put(key, encode_policy(policy)))
        policy_set(self._events, policy, operator)

    async def clear(self, vhost: str, name: str, operator: bool = False) -> None:
        """Raises NoSuchPolicy."""
        if self.get(vhost, name, operator) is None:
            raise NoSuchPolicy
        await self._change(vhost, Delete(policy_key(vhost, name, operator)))
        policy_cleared(self._events, vhost, name, operator)

    def get(self, vhost: str, name: str, operator: bool = False) -> Policy | None:
        return find_policy(self._set_of(self._require_vhost(vhost), operator), name)

    def list(self, vhost: str | None = None, operator: bool = False) -> list[Policy]:
        """Of one virtual host or of all, the weakest first."""
        vhosts = self._vhosts.values() if vhost is None else [self._require_vhost(vhost)]
        return [
            compiled.policy
            for each in vhosts
            for compiled in reversed(self._set_of(each, operator).policies)
        ]

    def problem(self, policy: Policy, operator: bool = False) -> str:
        """Why the stored policy's pattern matches nothing; empty if there is no problem."""
        return self._set_of(self._require_vhost(policy.vhost), operator).problem_of(policy.name)

    def explain_queue(self, vhost: str, name: str) -> Explanation:
        """Why the queue has the settings it has; raises KeyError."""
        return explain_queue(self._require_vhost(vhost), name)

    def explain_exchange(self, vhost: str, name: str) -> Explanation:
        return explain_exchange(self._require_vhost(vhost), name)

    async def dry_run(self, policy: Policy, operator: bool = False) -> Sequence[PolicyChange]:
        """What setting it would change, now; raises PolicyInvalid."""
        vhost = self._require_vhost(policy.vhost)
        require_valid(policy, operator)
        await self._try_out(policy)
        wanted = self._set_of(vhost, operator).with_policy(policy)
        return await self._foresee(vhost, wanted, operator)

    async def _try_out(self, policy: Policy) -> None:
        """Raise PolicyInvalid if the pattern is too slow for the names in the virtual host."""
        pattern = compile_pattern(policy.pattern, f"policy '{policy.name}', which was refused")
        vhost = self._require_vhost(policy.vhost)
        names = (*vhost.exchanges, *vhost.queues) if pattern.can_take_long else ()
        for first in range(0, len(names), NAMES_TRIED_PER_TURN):
            for name in names[first : first + NAMES_TRIED_PER_TURN]:
                try:
                    pattern.require(name.encode(errors="surrogateescape"))
                except InvalidPattern as error:
                    raise pattern_refused(error) from error
            await NextTurn()

    async def _foresee(
        self, vhost: VirtualHost, wanted: PolicySet, operator: bool
    ) -> Sequence[PolicyChange]:
        policies = vhost.policies.policies if operator else wanted
        operator_policies = wanted if operator else vhost.policies.operator_policies
        found = []
        for count, change in enumerate(foresee(vhost, policies, operator_policies), 1):
            if change is not None:
                found.append(change)
            if count % OBJECTS_COMPARED_PER_TURN == 0:
                await NextTurn()
        return found

    async def _change(self, vhost: str, change: Operation) -> None:
        """Provided that the virtual host is still there when it happens."""
        for _ in range(ATTEMPTS_MAX):
            owner = await self._stored_vhost(vhost)
            if await self._store.transact([Check(owner.key, owner.version)], [change]):
                return
        raise MetadataUnavailable(f"vhost {vhost} is being changed by others all the time")

    async def _stored_vhost(self, name: str) -> Record:
        record = await self._store.get(vhost_key(name))
        if record is None:
            raise NoSuchVhost(name)
        return record

    def _require_vhost(self, name: str) -> VirtualHost:
        vhost = self._vhosts.get(name)
        if vhost is None:
            raise NoSuchVhost(name)
        return vhost

    def _set_of(self, vhost: VirtualHost, operator: bool) -> PolicySet:
        return vhost.policies.operator_policies if operator else vhost.policies.policies
