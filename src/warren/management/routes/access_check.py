"""Access check: a dry run of a login and of one permission, with what each backend answered.

It is for administrators, who could set the password anyway, and it goes past the count of failed
logins: no client can reach it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from warren.auth.access import DEFAULT_EXCHANGE
from warren.auth.backends import Attempt, Backend, Identity
from warren.auth.chain import Step
from warren.auth.internal_backend import InternalBackend
from warren.auth.questions import Question, Subject, Verdict
from warren.auth.users import User
from warren.management.bodies import Body
from warren.management.call import Call
from warren.management.caller import ADMINISTRATORS
from warren.management.errors import bad_request
from warren.management.json_types import Json, JsonObject
from warren.management.resource import Resource
from warren.model.errors import LoginRefused

_PERMISSIONS: Final = ("configure", "write", "read")


async def _check(call: Call) -> JsonObject:
    body = await call.body()
    questions = _questions(body)
    steps: list[Step] = []
    attempt = Attempt(body.text("username", ""), body.text("password", "").encode())
    user: User | None = None
    try:
        user = await call.node.context.backends.chain.log_in(attempt, steps.append)
    except LoginRefused:
        pass  # the steps say so
    else:
        for question in questions:
            if not await _answered(call, user, question, steps):
                break
    shown: Json = None
    if user is not None:
        shown = {"name": user.name, "tags": list(user.tags)}
    is_permitted = bool(steps) and steps[-1].answer in ("accepted", "permitted")
    return {
        "user": shown,
        "is_permitted": is_permitted,
        "steps": [dict(asdict(step)) for step in steps],
    }


def _questions(body: Body) -> list[Question]:
    vhost = body.text("vhost", "")
    if not vhost:
        return []
    questions = [Question("vhost", vhost)]
    permission = body.text("permission", "read")
    if permission not in _PERMISSIONS:
        raise bad_request(f"permission must be one of {', '.join(_PERMISSIONS)}")
    kinds: tuple[Subject, ...] = ("queue", "exchange")
    for kind in kinds:
        if kind in body:
            name = body.text(kind, "") or DEFAULT_EXCHANGE
            questions.append(Question(kind, vhost, name, permission))
    if "routing_key" in body and "exchange" in body:
        name, key = body.text("exchange", ""), body.text("routing_key", "")
        questions.append(Question("topic", vhost, name, permission, key))
    return questions


async def _answered(call: Call, user: User, question: Question, steps: list[Step]) -> bool:
    """Ask each backend that has a say; False if one of them refuses."""
    grants: tuple[tuple[Backend, Identity], ...]
    if user.authorization is None:
        grants = ((InternalBackend(call.broker.access), Identity(user.name)),)
    else:
        grants = user.authorization.grants
    for backend, who in grants:
        verdict = backend.known(who, question) or await backend.ask(who, question)
        steps.append(_step(backend.name, question, verdict))
        if not verdict.is_permitted:
            return False
    return True


def _step(backend: str, question: Question, verdict: Verdict) -> Step:
    if question.subject == "vhost":
        asked = f"virtual host '{question.vhost}'"
    elif question.subject == "topic":
        asked = f"{question.permission} of topic '{question.routing_key}' of '{question.name}'"
    else:
        asked = f"{question.permission} of {question.subject} '{question.name}'"
    answer = "permitted" if verdict.is_permitted else "error" if verdict.error else "refused"
    return Step(backend, asked, answer, verdict.error)


RESOURCES: Final = (
    Resource(
        path="/warren/access/check",
        rule=ADMINISTRATORS,
        is_change=False,
        post=_check,
    ),
)
