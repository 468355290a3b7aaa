"""Internal backend: the users and permissions of the metadata store."""

from __future__ import annotations

from typing import cast

from warren.auth.access import AccessControl
from warren.auth.backends import INTERNAL, Attempt, Identity
from warren.auth.permissions import Access, TopicAccess
from warren.auth.questions import PERMITTED, REFUSED, Question, Verdict
from warren.auth.users import User
from warren.model.errors import AmqpError, LoginRefused


class InternalBackend:
    """Everything is known at once; a chain of this one alone never waits."""

    name = INTERNAL

    def __init__(self, access: AccessControl) -> None:
        self._access = access

    async def log_in(self, attempt: Attempt) -> Identity:
        # Where the client is counts for users of all backends: the caller looks at that.
        user = self._access.authenticate(attempt.name, attempt.password, peer_is_loopback=True)
        return Identity(user.name, user.tags)

    async def authorize(self, attempt: Attempt) -> Identity:
        user = self._access.directory.user(attempt.name)
        if user is None:
            raise LoginRefused(f"user '{attempt.name}' - invalid credentials")
        return Identity(user.name, user.tags)

    def known(self, who: Identity, question: Question) -> Verdict:
        access, user, vhost, name = self._access, User(who.name), question.vhost, question.name
        try:
            if question.subject == "vhost":
                access.require_vhost(user, vhost)
            elif question.subject == "topic":
                topic_access = cast("TopicAccess", question.permission)
                access.require_topic(user, vhost, name, topic_access, question.routing_key)
            else:
                permission = cast("Access", question.permission)
                access.require(user, vhost, question.subject, name, permission)
        except AmqpError:
            return REFUSED
        return PERMITTED

    async def ask(self, who: Identity, question: Question) -> Verdict:
        return self.known(who, question)

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        return who
