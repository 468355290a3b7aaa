"""Refusals as RabbitMQ's management API words them: a status, an error and a reason.

RabbitMQ has two families of bodies. What its own code refuses says `bad_request`, `not_found`,
`not_authorised`; what its web server finds missing says `Object Not Found`. Clients compare both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from warren.auth.admin import AdminError, NoSuchUser, NoSuchVhost
from warren.management.json_types import Json, encode
from warren.model.errors import AmqpError
from warren.model.records import QueueRecord
from warren.model.regular_expressions import InvalidPattern

JSON_TYPE: Final = "application/json"
CHALLENGE: Final = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
BETWEEN_MASTERS_RETRY_S: Final = "1"
"""A failover takes a fraction of that, or a few times as long."""
_NO_HEADERS: Final[Mapping[str, str]] = {}

# What the broker refuses with, whoever asks: `refusal_of` makes an answer of it.
REFUSED: Final = (AmqpError, AdminError, InvalidPattern)


class Refusal(Exception):
    """The request ends here, with this answer."""

    def __init__(
        self, status: int, error: str, reason: Json, headers: Mapping[str, str] = _NO_HEADERS
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers

    def response(self) -> Response:
        body = encode({"error": self.error, "reason": self.reason})
        return Response(body, self.status, self.headers, JSON_TYPE)


class EmptyRefusal(Refusal):
    """The web server speaks before the API does, and says no more than a status."""

    def __init__(self, status: int, headers: Mapping[str, str] = _NO_HEADERS) -> None:
        super().__init__(status, "", "", headers)

    def response(self) -> Response:
        return Response(b"", self.status, self.headers)


def bad_request(reason: Json) -> Refusal:
    return Refusal(400, "bad_request", reason)


def not_authorised(reason: str) -> Refusal:
    """Known, but not allowed to do this."""
    return Refusal(401, "not_authorised", reason)


def login_failed() -> Refusal:
    return Refusal(401, "not_authorized", "Login failed", CHALLENGE)


def too_many_failures(wait_s: int) -> Refusal:
    """RabbitMQ has no such limit, and so no words for it."""
    retry = {"retry-after": str(wait_s)}
    return Refusal(429, "too_many_requests", "Too many failed logins", retry)


def not_found(reason: str) -> Refusal:
    """Something that the request needs is missing."""
    return Refusal(404, "not_found", reason)


def no_such_object() -> Refusal:
    """There is nothing at this address."""
    return Refusal(404, "Object Not Found", "Not Found")


class BetweenMasters(Refusal):
    """The queue is there, and has no master at the moment; a caller that asks again is answered."""

    def __init__(self, queue: QueueRecord) -> None:
        reason = f"{queue} is moving to another node: ask again"
        headers = {"retry-after": BETWEEN_MASTERS_RETRY_S}
        super().__init__(503, "unavailable", reason, headers)


def refusal_of(error: Exception) -> Refusal:
    """How one of REFUSED looks over HTTP."""
    match error:
        case AmqpError():
            return _refusal_of_channel(error)
        case NoSuchUser():
            return bad_request(["no_such_user", error.name])
        case NoSuchVhost():
            return bad_request(["no_such_vhost", error.name])
        case InvalidPattern():
            return bad_request(["invalid_regexp", error.pattern, [error.reason, error.position]])
        case _:
            return bad_request(str(error))


def _refusal_of_channel(error: AmqpError) -> Refusal:
    """What would have closed a client's channel."""
    if error.name == "NOT_FOUND":
        return not_found(error.explanation)
    if error.name in {"ACCESS_REFUSED", "NOT_ALLOWED"}:
        return not_authorised("Access refused.")
    return bad_request(error.explanation)


def without_tags(text: str) -> str:
    """Texts that quote what somebody typed may end up in a page."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
