"""Permissions: what is stored, and the same ready to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from warren.auth.patterns import InvalidPattern, Pattern

Access: TypeAlias = Literal["configure", "write", "read"]
TopicAccess: TypeAlias = Literal["write", "read"]
ResourceKind: TypeAlias = Literal["queue", "exchange"]

# Patterns of topic permissions differ by user and client once the variables are put in.
EXPANDED_PATTERNS_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Permission:
    """Patterns of the names a user may configure, write to and read from in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """Patterns of the routing keys a user may publish and bind with on a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class CompiledPermission:
    __slots__ = ("_patterns", "record")

    def __init__(self, record: Permission) -> None:
        self.record = record
        owner = f"permissions of user '{record.user}' in vhost '{record.vhost}'"
        self._patterns: dict[Access, Pattern] = {
            "configure": Pattern(record.configure, owner),
            "write": Pattern(record.write, owner),
            "read": Pattern(record.read, owner),
        }

    def permits(self, access: Access, name: str) -> bool:
        return self._patterns[access].permits(name)


def permits_topic(
    permission: TopicPermission, access: TopicAccess, routing_key: str, client_id: str
) -> bool:
    text = permission.write if access == "write" else permission.read
    pattern = _expanded(text, permission.vhost, permission.user, client_id)
    return pattern is not None and pattern.permits(routing_key)


@lru_cache(maxsize=EXPANDED_PATTERNS_MAX)
def _expanded(text: str, vhost: str, user: str, client_id: str) -> Pattern | None:
    """None if the names put in make it no pattern at all, which then permits nothing.

    Only an administrator names vhosts and users, so these go in as they are, as in RabbitMQ. A
    client names itself: its id must not be read as a pattern. Without one the variable stays.
    """
    expanded = text.replace("{vhost}", vhost).replace("{username}", user)
    if client_id:
        quoted = client_id.replace("\\E", "\\E\\\\E\\Q")
        expanded = expanded.replace("{client_id}", f"\\Q{quoted}\\E")
    try:
        return Pattern(expanded, f"topic permissions of user '{user}' in vhost '{vhost}'")
    except InvalidPattern:
        return None
