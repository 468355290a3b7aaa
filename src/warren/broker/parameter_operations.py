"""Runtime parameters: RabbitMQ's one table for what is set at run time, by component.

Here the components keep what is theirs in its own form; this is the table's face for those who ask
by component, such as definitions files. Shovels and federation are plugins' components, and without
the plugin RabbitMQ does not know them either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warren.auth.admin import AdminError, InvalidLimits, NoSuchVhost
from warren.broker.policy_events import global_parameter_set
from warren.broker.policy_operations import NoSuchPolicy
from warren.metadata.keys import global_parameter_key
from warren.metadata.policy_codec import decode_parameter, encode_parameter
from warren.metadata.store import Check, Delete, Put, Record
from warren.model.json_terms import JsonValue, render_json
from warren.policy.validation import PolicyInvalid, parse_policy

if TYPE_CHECKING:
    from warren.broker.broker import Broker

POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
LIMITS_NAME: Final = "limits"

CLUSTER_ID: Final = "internal_cluster_id"
CLUSTER_ID_PREFIX: Final = "rabbitmq-cluster-id-"


class ParameterInvalid(ValueError):
    """The text is RabbitMQ's, for whoever set the parameter."""


class NoSuchParameter(AdminError):
    def __init__(self) -> None:
        super().__init__("Parameter does not exist")


@dataclass(frozen=True, slots=True)
class Parameter:
    component: str
    vhost: str
    name: str
    value: JsonValue


class ParameterOperations:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._global: dict[str, JsonValue] = {}

    async def open(self, new_token: str) -> None:
        """On the very first start, give the cluster its id."""
        key = global_parameter_key(CLUSTER_ID)
        put = Put(key, encode_parameter(CLUSTER_ID_PREFIX + new_token))
        await self._broker.store.transact([Check(key, 0)], [put])

    # Of a virtual host.

    async def set(self, component: str, vhost: str, name: str, value: JsonValue) -> None:
        """Raises NoSuchVhost and ParameterInvalid."""
        if vhost not in self._broker.vhosts:
            raise NoSuchVhost(vhost)
        if component == POLICY:
            raise ParameterInvalid("policies may not be set using this method")
        if component == OPERATOR_POLICY:
            await self._set_operator_policy(vhost, name, value)
        elif component == VHOST_LIMITS:
            await self._set_limits(vhost, name, value)
        else:
            raise ParameterInvalid(f"Validation failed\n\ncomponent {component} not found\n")

    async def clear(self, component: str, vhost: str, name: str) -> None:
        """Raises NoSuchParameter, NoSuchVhost and ParameterInvalid."""
        if component == POLICY:
            raise ParameterInvalid("policies may not be cleared using this method")
        if self.get(component, vhost, name) is None:
            raise NoSuchParameter
        if component == VHOST_LIMITS:
            await self._broker.admin.set_vhost_limits(vhost, {})
            return
        try:
            await self._broker.policies.clear(vhost, name, operator=True)
        except NoSuchPolicy as error:
            raise NoSuchParameter from error

    def get(self, component: str, vhost: str, name: str) -> Parameter | None:
        found = (each for each in self.list(component, vhost) if each.name == name)
        return next(found, None)

    def list(self, component: str | None = None, vhost: str | None = None) -> list[Parameter]:
        """Policies only if asked for: they have a list of their own."""
        listed = [*self._policies(component == POLICY, vhost)]
        if component in {None, OPERATOR_POLICY}:
            listed += self._operator_policies(vhost)
        if component in {None, VHOST_LIMITS}:
            listed += self._limits(vhost)
        return listed

    # Of all.

    async def set_global(self, name: str, value: JsonValue) -> None:
        if name in self._global and _is_same(self._global[name], value):
            return
        put = Put(global_parameter_key(name), encode_parameter(value))
        await self._broker.store.transact([], [put])
        global_parameter_set(self._broker.events, name, {"value": value})

    async def clear_global(self, name: str) -> None:
        """Raises NoSuchParameter."""
        if name not in self._global:
            raise NoSuchParameter
        await self._broker.store.transact([], [Delete(global_parameter_key(name))])
        global_parameter_set(self._broker.events, name, {})

    def list_global(self) -> dict[str, JsonValue]:
        return dict(sorted(self._global.items()))

    def take_in(self, name: str, record: Record | None) -> None:
        """What the store tells of a global parameter."""
        if record is None:
            self._global.pop(name, None)
        else:
            self._global[name] = decode_parameter(record.value)

    # How it is done.

    async def _set_operator_policy(self, vhost: str, name: str, value: JsonValue) -> None:
        if not isinstance(value, Mapping):
            raise _invalid(f"{name} not a list {render_json(value)}")
        try:
            policy = parse_policy(vhost, name, value, operator=True)
            await self._broker.policies.set(policy, operator=True)
        except PolicyInvalid as error:
            raise ParameterInvalid(str(error)) from error

    async def _set_limits(self, vhost: str, name: str, value: JsonValue) -> None:
        if name != LIMITS_NAME:
            raise _invalid(f"the limits of a virtual host are named {LIMITS_NAME}, not {name}")
        if not isinstance(value, Mapping):
            raise _invalid(f"{name} not a list {render_json(value)}")
        limits: dict[str, int] = {}
        for key, limit in value.items():
            if not isinstance(limit, int) or isinstance(limit, bool):
                raise _invalid(f"{key} should be a number, actually was {render_json(limit)}")
            limits[key] = limit
        try:
            await self._broker.admin.set_vhost_limits(vhost, limits)
        except InvalidLimits as error:
            raise _invalid(str(error)) from error

    def _policies(self, is_wanted: bool, vhost: str | None) -> Sequence[Parameter]:
        if not is_wanted:
            return []
        found = self._broker.policies.list(vhost)
        return [Parameter(POLICY, each.vhost, each.name, each.terms()) for each in found]

    def _operator_policies(self, vhost: str | None) -> Sequence[Parameter]:
        found = self._broker.policies.list(vhost, operator=True)
        return [Parameter(OPERATOR_POLICY, each.vhost, each.name, each.terms()) for each in found]

    def _limits(self, vhost: str | None) -> Sequence[Parameter]:
        names = [*self._broker.vhosts] if vhost is None else [vhost]
        directory = self._broker.access.directory
        limits = {name: directory.vhost_limits(name) for name in names}
        return [
            Parameter(VHOST_LIMITS, name, LIMITS_NAME, dict(of_vhost))
            for name, of_vhost in limits.items()
            if of_vhost
        ]


def _invalid(line: str) -> ParameterInvalid:
    return ParameterInvalid(f"Validation failed\n\n{line}\n")


def _is_same(ours: JsonValue, theirs: JsonValue) -> bool:
    return ours == theirs and type(ours) is type(theirs)
