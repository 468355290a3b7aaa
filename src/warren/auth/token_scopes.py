"""Token scopes as permissions: `read:vhost/name`, `write:vhost/name/routing key`, `tag:monitoring`.

Patterns have `*` for any text, and `%xx` for characters that mean something here, as in RabbitMQ. A
scope without a routing key says nothing about topics: it does not permit any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_plus

from warren.auth.questions import Question

_PERMISSIONS: Final = ("read", "write", "configure")
_TAG: Final = "tag:"


def matches(subject: str, pattern: str) -> bool:
    """True if the text is that of the pattern. Linear in the length of both."""
    first, *rest = (unquote_plus(part) for part in pattern.split("*"))
    if not subject.startswith(first):
        return False
    if not rest:
        return subject == first
    *middle, last = rest
    position = len(first)
    for part in middle:
        found = subject.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return subject.endswith(last) and len(subject) - len(last) >= position


@dataclass(frozen=True, slots=True)
class ScopePermission:
    permission: str
    vhost: str
    name: str
    routing_key: str | None = None

    def permits(self, question: Question) -> bool:
        if not matches(question.vhost, self.vhost):
            return False
        if question.subject == "vhost":
            return True
        if question.permission != self.permission or not matches(question.name, self.name):
            return False
        if question.subject != "topic":
            return True
        return self.routing_key is not None and matches(question.routing_key, self.routing_key)


def permissions_of(scopes: Iterable[str]) -> tuple[ScopePermission, ...]:
    """Return the permissions that scopes give; other scopes are not looked at."""
    found = []
    for scope in scopes:
        permission, colon, pattern = scope.partition(":")
        parts = pattern.split("/")
        if colon and permission in _PERMISSIONS and len(parts) in (2, 3):
            found.append(ScopePermission(permission, *parts))
    return tuple(found)


def tags_of(scopes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({each.removeprefix(_TAG) for each in scopes if each.startswith(_TAG)}))


def scopes_of(claims: Mapping[str, Any], resource_server_id: str, extra_key: str) -> list[str]:
    """Return all scopes of a token: its own, those of the extra claim, and Keycloak's."""
    scopes = _words(claims.get("scope"))
    extra = claims.get(extra_key) if extra_key else None
    if isinstance(extra, dict):
        of_server = _words(extra.get(resource_server_id))
        scopes = [f"{resource_server_id}.{scope}" for scope in of_server] + scopes
    else:
        scopes = _words(extra) + scopes
    authorization = claims.get("authorization")
    granted = authorization.get("permissions") if isinstance(authorization, dict) else None
    for grant in granted if isinstance(granted, list) else []:
        if isinstance(grant, dict):
            scopes = _words(grant.get("scopes")) + scopes
    return scopes


def without_prefix(scopes: Iterable[str], prefix: str) -> list[str]:
    return [scope.removeprefix(prefix) for scope in scopes if scope.startswith(prefix)]


def _words(claim: object) -> list[str]:
    if isinstance(claim, str):
        return claim.split()
    if isinstance(claim, list):
        return [each for each in claim if isinstance(each, str)]
    return []


def audiences_of(claims: Mapping[str, Any]) -> list[str]:
    return _words(claims.get("aud"))
