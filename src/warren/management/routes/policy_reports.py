"""/api/warren: which policy applies to what and why, and what another one would change."""

from __future__ import annotations

from typing import Final

from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, POLICYMAKERS, VHOST_USERS
from warren.management.errors import bad_request
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.management.views.policy_reports import show_change, show_explanation
from warren.policy.validation import PolicyInvalid, parse_policy


def has_queue(call: Call) -> bool:
    vhost = call.find_vhost()
    return vhost is not None and call.parts["queue"] in vhost.queues


def _has_exchange(call: Call) -> bool:
    vhost = call.find_vhost()
    return vhost is not None and call.exchange_name() in vhost.exchanges


async def _explain_queue(call: Call) -> JsonObject:
    policies = call.broker.policies
    return show_explanation(policies.explain_queue(call.vhost.name, call.parts["queue"]))


async def _explain_exchange(call: Call) -> JsonObject:
    policies = call.broker.policies
    return show_explanation(policies.explain_exchange(call.vhost.name, call.exchange_name()))


async def _dry_run(call: Call) -> list[JsonObject]:
    return await _foreseen(call, is_operator=False)


async def _dry_run_operator(call: Call) -> list[JsonObject]:
    return await _foreseen(call, is_operator=True)


async def _foreseen(call: Call, is_operator: bool) -> list[JsonObject]:
    body = await call.body()
    name = body.text("name", "")
    terms: dict[str, Json] = {"priority": 0, **body.members}
    for where in ("name", "vhost"):
        terms.pop(where, None)
    body.require("pattern", "definition")
    try:
        policy = parse_policy(call.vhost.name, name, terms, is_operator)
        changes = await call.broker.policies.dry_run(policy, is_operator)
    except PolicyInvalid as error:
        raise bad_request(str(error)) from None
    return [show_change(change) for change in changes]


def _has_vhost(call: Call) -> bool:
    return call.find_vhost() is not None


RESOURCES: Final = (
    Resource(
        path="/warren/queues/{vhost}/{queue}/explain-policy",
        rule=VHOST_USERS,
        exists=has_queue,
        get=_explain_queue,
    ),
    Resource(
        path="/warren/exchanges/{vhost}/{exchange}/explain-policy",
        rule=VHOST_USERS,
        exists=_has_exchange,
        get=_explain_exchange,
    ),
    Resource(
        path="/warren/policies/{vhost}/dry-run",
        rule=POLICYMAKERS,
        exists=_has_vhost,
        is_change=False,
        post=_dry_run,
    ),
    Resource(
        path="/warren/operator-policies/{vhost}/dry-run",
        rule=ADMINISTRATORS,
        exists=_has_vhost,
        is_change=False,
        post=_dry_run_operator,
    ),
)
