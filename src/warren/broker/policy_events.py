"""What is told of policies and parameters that are set or cleared."""

from __future__ import annotations

from warren.broker.events import EventBus, Properties
from warren.model.records import Policy

_OPERATOR_POLICY = "operator_policy"


def policy_set(events: EventBus, policy: Policy, operator: bool) -> None:
    """An operator policy is told as the parameter that it is, too."""
    where: Properties = {"vhost": policy.vhost, "name": policy.name}
    if operator:
        events.tell(
            "parameter.set",
            lambda: {"value": policy.terms(), "component": _OPERATOR_POLICY, **where},
        )
    events.tell("policy.set", lambda: {**policy.terms(), **where})


def policy_cleared(events: EventBus, vhost: str, name: str, operator: bool) -> None:
    where: Properties = {"vhost": vhost, "name": name}
    if not operator:
        events.tell("policy.cleared", lambda: where)
        return
    events.tell("parameter.cleared", lambda: {"component": _OPERATOR_POLICY, **where})
    events.tell("operator.policy.cleared", lambda: where)


def global_parameter_set(events: EventBus, name: str, value: Properties) -> None:
    """One that is cleared is told as set to nothing, as RabbitMQ does."""
    events.tell("parameter.set", lambda: {**value, "name": name, "component": "global"})
