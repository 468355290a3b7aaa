"""HTTP backend: another service is asked, and answers `allow`, with tags for a login, or `deny`.

The parameters are those of rabbitmq_auth_backend_http 3.10: username and password; username, vhost,
ip and tags; username, vhost, resource, name, permission and tags, and for topics routing_key and
variable_map.
"""

from __future__ import annotations

from urllib.parse import quote_plus

from warren.auth.backends import HTTP, Attempt, BackendError, Identity
from warren.auth.questions import PERMITTED, REFUSED, Question, Verdict
from warren.config.auth import HttpBackend as HttpSettings
from warren.model.errors import LoginRefused
from warren.server.backends.pool import BackendPool
from warren.server.backends.web import WebClient, WebRequest

ALLOW = "allow"
DENY = "deny"
_FORM = "application/x-www-form-urlencoded"
_OK = (200, 201)
_SHOWN_CHARS_MAX = 100


class HttpBackend:
    name = HTTP

    def __init__(self, settings: HttpSettings, client: WebClient, pool: BackendPool) -> None:
        self._settings = settings
        self._client = client
        self._pool = pool

    async def log_in(self, attempt: Attempt) -> Identity:
        parameters = {"username": attempt.name}
        if attempt.password is not None:
            parameters["password"] = attempt.password.decode(errors="replace")
        answer = await self._asked(self._settings.user_path, parameters)
        if answer == DENY:
            raise LoginRefused("Denied by the backing HTTP service")
        word, *tags = answer.split(" ")
        if word != ALLOW:
            raise BackendError(f"bad response: {answer[:_SHOWN_CHARS_MAX]!r}")
        return Identity(attempt.name, tuple(tag for tag in tags if tag))

    async def authorize(self, attempt: Attempt) -> Identity:
        who = await self.log_in(attempt)
        return Identity(who.name)  # as in RabbitMQ, tags come from the login alone

    def known(self, who: Identity, question: Question) -> Verdict | None:
        return None

    async def ask(self, who: Identity, question: Question) -> Verdict:
        try:
            answer = await self._asked(self._path(question), _parameters(who, question))
        except BackendError as error:
            return Verdict(False, str(error))
        if answer == ALLOW:
            return PERMITTED
        if answer == DENY:
            return REFUSED
        return Verdict(False, f"bad response: {answer[:_SHOWN_CHARS_MAX]!r}")

    async def renew(self, who: Identity, secret: bytes) -> Identity:
        return who

    def _path(self, question: Question) -> str:
        settings = self._settings
        if question.subject == "vhost":
            return settings.vhost_path
        return settings.topic_path if question.subject == "topic" else settings.resource_path

    async def _asked(self, path: str, parameters: dict[str, str]) -> str:
        query = "&".join(f"{name}={quote_plus(value)}" for name, value in parameters.items())
        if self._settings.http_method == "get":
            request = WebRequest(f"{path}?{query}")
        else:
            headers = {"content-type": _FORM}
            request = WebRequest(path, "POST", query.encode(), headers)
        answer = await self._pool.run(lambda: self._client.send(request))
        if answer.status not in _OK:
            raise BackendError(f"{path} answered with status {answer.status}")
        return answer.body.decode(errors="replace").strip().lower()


def _parameters(who: Identity, question: Question) -> dict[str, str]:
    tags = " ".join(who.tags)
    if question.subject == "vhost":
        return {
            "username": who.name, "vhost": question.vhost, "ip": question.peer, "tags": tags,
        }  # fmt: skip
    parameters = {
        "username": who.name, "vhost": question.vhost, "resource": question.subject,
        "name": question.name, "permission": question.permission, "tags": tags,
    }  # fmt: skip
    if question.subject == "topic":
        parameters["routing_key"] = question.routing_key
        parameters["variable_map.username"] = who.name
        parameters["variable_map.vhost"] = question.vhost
    return parameters
