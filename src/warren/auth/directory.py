"""The users, vhosts, permissions and limits in force, in memory, fed by the store's watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from warren.auth.codec import (
    UnreadableAccessRecord,
    decode_limits,
    decode_permission,
    decode_topic_permission,
    decode_user,
    decode_vhost,
)
from warren.auth.patterns import InvalidPattern
from warren.auth.permissions import CompiledPermission, Permission, TopicPermission
from warren.auth.users import NO_LIMITS, User, Vhost
from warren.metadata.keys import KeyKind, ParsedKey, parse_key
from warren.metadata.store import Change

ACCESS_KINDS: Final = (
    KeyKind.VHOST,
    KeyKind.USER,
    KeyKind.PERMISSION,
    KeyKind.TOPIC_PERMISSION,
    KeyKind.VHOST_LIMIT,
    KeyKind.USER_LIMIT,
)


class Directory:
    """Read it freely; only `apply` changes it."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._vhosts: dict[str, Vhost] = {}
        self._permissions: dict[tuple[str, ...], CompiledPermission] = {}
        self._topic_permissions: dict[tuple[str, ...], TopicPermission] = {}
        self._vhost_limits: dict[str, Mapping[str, int]] = {}
        self._user_limits: dict[str, Mapping[str, int]] = {}
        self._setters: dict[KeyKind, Callable[[tuple[str, ...], bytes | None], None]] = {
            KeyKind.VHOST: self._set_vhost,
            KeyKind.USER: self._set_user,
            KeyKind.PERMISSION: self._set_permission,
            KeyKind.TOPIC_PERMISSION: self._set_topic_permission,
            KeyKind.VHOST_LIMIT: self._set_vhost_limits,
            KeyKind.USER_LIMIT: self._set_user_limits,
        }

    def apply(self, changes: Sequence[Change]) -> bool:
        """Whether any of the changes was about access.

        What cannot be read permits nothing, and is told by UnreadableAccessRecord at the end.
        """
        is_affected = False
        faults: list[str] = []
        for change in changes:
            key = parse_key(change.key)
            if key is None or key.kind not in self._setters:
                continue
            is_affected = True
            try:
                value = None if change.record is None else change.record.value
                self._setters[key.kind](key.parts, value)
            except (UnreadableAccessRecord, InvalidPattern) as error:
                self._deny(key)
                faults.append(f"{change.key}: {error}")
        if faults:
            raise UnreadableAccessRecord("; ".join(faults))
        return is_affected

    def user(self, name: str) -> User | None:
        user = self._users.get(name)
        return None if user is None else replace(user, limits=self.user_limits(name))

    def users(self) -> list[User]:
        return [replace(user, limits=self.user_limits(user.name)) for user in self._users.values()]

    def has_vhost(self, name: str) -> bool:
        return name in self._vhosts

    def vhost(self, name: str) -> Vhost | None:
        return self._vhosts.get(name)

    def vhosts(self) -> list[Vhost]:
        return list(self._vhosts.values())

    def permission(self, user: str, vhost: str) -> CompiledPermission | None:
        return self._permissions.get((vhost, user))

    def permissions(self) -> list[Permission]:
        return [compiled.record for compiled in self._permissions.values()]

    def topic_permission(self, user: str, vhost: str, exchange: str) -> TopicPermission | None:
        return self._topic_permissions.get((vhost, user, exchange))

    def topic_permissions(self) -> list[TopicPermission]:
        return list(self._topic_permissions.values())

    def user_limits(self, name: str) -> Mapping[str, int]:
        return self._user_limits.get(name, NO_LIMITS)

    def vhost_limits(self, name: str) -> Mapping[str, int]:
        return self._vhost_limits.get(name, NO_LIMITS)

    def _deny(self, key: ParsedKey) -> None:
        if key.kind is KeyKind.TOPIC_PERMISSION:  # without a row everything would be permitted
            vhost, user, exchange = key.parts
            self._topic_permissions[key.parts] = TopicPermission(user, vhost, exchange, "", "")
        elif key.kind in {KeyKind.USER, KeyKind.PERMISSION}:
            self._setters[key.kind](key.parts, None)

    def _set_vhost(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._vhosts.pop(parts[0], None)
        else:
            self._vhosts[parts[0]] = decode_vhost(value)

    def _set_user(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._users.pop(parts[0], None)
        else:
            self._users[parts[0]] = decode_user(value)

    def _set_permission(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._permissions.pop(parts, None)
        else:
            self._permissions[parts] = CompiledPermission(decode_permission(value))

    def _set_topic_permission(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._topic_permissions.pop(parts, None)
        else:
            self._topic_permissions[parts] = decode_topic_permission(value)

    def _set_vhost_limits(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._vhost_limits.pop(parts[0], None)
        else:
            self._vhost_limits[parts[0]] = decode_limits(value)

    def _set_user_limits(self, parts: tuple[str, ...], value: bytes | None) -> None:
        if value is None:
            self._user_limits.pop(parts[0], None)
        else:
            self._user_limits[parts[0]] = decode_limits(value)
