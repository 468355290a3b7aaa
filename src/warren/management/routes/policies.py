"""/api/policies and /api/operator-policies: settings for whatever has a name of a pattern."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from starlette.responses import Response

from warren.broker.policy_operations import NoSuchPolicy
from warren.management.bodies import Body
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS, POLICYMAKERS, VHOST_USERS, visible_vhosts
from warren.management.errors import bad_request, no_such_object, without_tags
from warren.management.json_types import JsonObject
from warren.management.listing import Listing
from warren.management.resource import Resource
from warren.management.views.policies import show_policy
from warren.model.records import Policy
from warren.policy.validation import PolicyInvalid, parse_policy


def policy_from(body: Body, vhost: str, name: str, operator: bool) -> Policy:
    """Raises PolicyInvalid; what it has to say and what may be left unsaid."""
    pattern, definition = body.require("pattern", "definition")
    terms = {
        "pattern": pattern,
        "definition": definition,
        "priority": body.get("priority", 0),
        "apply-to": body.get("apply-to", "all"),
    }
    return parse_policy(vhost, name, terms, operator)


class _Policies:
    """The resources of one of the two kinds."""

    def __init__(self, operator: bool) -> None:
        self._operator = operator

    def resources(self, path: str) -> tuple[Resource, ...]:
        return (
            Resource(path=path, rule=VHOST_USERS, get=self._list),
            Resource(
                path=path + "/{vhost}",
                rule=VHOST_USERS,
                exists=lambda call: call.find_vhost() is not None,
                get=self._list,
            ),
            Resource(
                path=path + "/{vhost}/{name}",
                rule=ADMINISTRATORS if self._operator else POLICYMAKERS,
                exists=lambda call: self._find(call) is not None,
                get=self._show,
                put=self._put,
                delete=self._delete,
            ),
        )

    def _find(self, call: Call) -> Policy | None:
        if call.find_vhost() is None:
            return None
        return call.broker.policies.get(call.parts["vhost"], call.parts["name"], self._operator)

    async def _list(self, call: Call) -> Response:
        policies = [
            policy
            for vhost in visible_vhosts(call)
            for policy in call.broker.policies.list(vhost.name, self._operator)
        ]
        order = attrgetter("priority", "vhost", "name")
        listing = Listing(policies, lambda each: self._row(call, each), order, is_paged=False)
        return await listing.respond(call)

    async def _show(self, call: Call) -> JsonObject:
        policy = self._find(call)
        if policy is None:
            raise no_such_object()
        return self._row(call, policy)

    def _row(self, call: Call, policy: Policy) -> JsonObject:
        """The policy, and what is wrong with its pattern if that had to be given up."""
        problem = call.broker.policies.problem(policy, self._operator)
        return show_policy(policy) | ({"pattern_problem": problem} if problem else {})

    async def _put(self, call: Call) -> None:
        vhost, body = call.vhost, await call.body()
        try:
            policy = policy_from(body, vhost.name, call.parts["name"], self._operator)
        except PolicyInvalid as error:
            raise bad_request(self._shown(str(error))) from None
        try:
            await call.broker.policies.set(policy, self._operator)
        except PolicyInvalid as error:  # too slow for the names there are
            raise bad_request(self._shown(str(error))) from None

    async def _delete(self, call: Call) -> None:
        try:
            vhost, name = call.parts["vhost"], call.parts["name"]
            await call.broker.policies.clear(vhost, name, self._operator)
        except NoSuchPolicy:
            raise no_such_object() from None

    def _shown(self, text: str) -> str:
        """RabbitMQ escapes the one kind, and not the other."""
        return text if self._operator else without_tags(text)


RESOURCES: Final = (
    *_Policies(operator=False).resources("/policies"),
    *_Policies(operator=True).resources("/operator-policies"),
)
