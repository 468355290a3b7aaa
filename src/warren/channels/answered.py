"""Handlers of users whose permissions a remote backend knows, answered before they go on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from warren.auth.backends import BackendError
from warren.auth.questions import AnswerPending, once_answered
from warren.auth.users import User
from warren.model.errors import LoginRefused, not_allowed
from warren.model.logs import EventLog
from warren.queues.boundary import answer_of

_log = EventLog("connection")


def call_answered(handler: Callable[[Any, Any], Any], channel: Any, method: Any) -> Any:
    """Call the handler of a method, again if it needs an answer that is not known yet."""
    try:
        result = handler(channel, method)
    except AnswerPending:
        return once_answered(lambda: answer_of(handler(channel, method)))
    if not isinstance(result, Coroutine):
        return result
    first: list[Coroutine[Any, Any, Any]] = [result]
    return once_answered(lambda: first.pop() if first else answer_of(handler(channel, method)))


async def renew_secret(user: User, secret: bytes) -> User:
    """Return the user with a new secret, or raise HardError 530 with RabbitMQ's words."""
    assert user.authorization is not None, "internal users have no secret that ends"
    try:
        authorization = await user.authorization.renewed(secret)
    except LoginRefused as refused:
        _log.error("secret update refused", user=user.name, reason=refused)
        raise not_allowed("New secret was refused by one of the backends") from None
    except BackendError as error:
        _log.error("secret update failed", user=user.name, reason=error)
        raise not_allowed("Secret update failed") from None
    _log.info("secret updated", user=user.name)
    return replace(user, authorization=authorization)
