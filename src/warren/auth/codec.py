"""Access records as bytes: versioned JSON, like the topology's.

A field that this version does not know is ignored; a layout it does not know is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import User, Vhost
from warren.model.unreadable import UNREADABLE

LAYOUT: Final = 1


class UnreadableAccessRecord(ValueError):
    """Stored bytes that are not an access record of this or an older layout."""


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    layout: int = LAYOUT


class _User(_Stored, frozen=True, kw_only=True):
    name: str
    password_hash: str
    hashing_algorithm: str
    tags: list[str]


class _Vhost(_Stored, frozen=True, kw_only=True):
    name: str
    description: str = ""
    tags: list[str] = []
    default_queue_type: str = ""
    tracing: bool = False


class _Permission(_Stored, frozen=True, kw_only=True):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class _TopicPermission(_Stored, frozen=True, kw_only=True):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class _Limits(_Stored, frozen=True, kw_only=True):
    limits: dict[str, int]


_S = TypeVar("_S", bound=_Stored)


def _decode(data: bytes, shape: type[_S]) -> _S:
    try:
        stored = msgspec.json.decode(data, type=shape)
    except UNREADABLE as error:
        raise UnreadableAccessRecord(str(error)) from error
    if stored.layout > LAYOUT:
        raise UnreadableAccessRecord(f"layout {stored.layout} is newer than {LAYOUT}")
    return stored


def _encode(stored: _Stored) -> bytes:
    # msgspec leaves nothing out by default, so the layout is always there.
    return msgspec.json.encode(stored)


def encode_user(user: User) -> bytes:
    """Without the limits, which have a key of their own."""
    return _encode(
        _User(
            name=user.name,
            password_hash=user.password_hash,
            hashing_algorithm=user.hashing_algorithm,
            tags=list(user.tags),
        )
    )


def decode_user(data: bytes) -> User:
    stored = _decode(data, _User)
    tags = tuple(stored.tags)
    return User(stored.name, stored.password_hash, stored.hashing_algorithm, tags)


def encode_vhost(vhost: Vhost) -> bytes:
    return _encode(
        _Vhost(
            name=vhost.name,
            description=vhost.description,
            tags=list(vhost.tags),
            default_queue_type=vhost.default_queue_type,
            tracing=vhost.tracing,
        )
    )


def decode_vhost(data: bytes) -> Vhost:
    stored = _decode(data, _Vhost)
    tags = tuple(stored.tags)
    return Vhost(stored.name, stored.description, tags, stored.default_queue_type, stored.tracing)


def encode_permission(permission: Permission) -> bytes:
    return _encode(
        _Permission(
            user=permission.user,
            vhost=permission.vhost,
            configure=permission.configure,
            write=permission.write,
            read=permission.read,
        )
    )


def decode_permission(data: bytes) -> Permission:
    stored = _decode(data, _Permission)
    return Permission(stored.user, stored.vhost, stored.configure, stored.write, stored.read)


def encode_topic_permission(permission: TopicPermission) -> bytes:
    return _encode(
        _TopicPermission(
            user=permission.user,
            vhost=permission.vhost,
            exchange=permission.exchange,
            write=permission.write,
            read=permission.read,
        )
    )


def decode_topic_permission(data: bytes) -> TopicPermission:
    stored = _decode(data, _TopicPermission)
    return TopicPermission(stored.user, stored.vhost, stored.exchange, stored.write, stored.read)


def encode_limits(limits: Mapping[str, int]) -> bytes:
    return _encode(_Limits(limits=dict(limits)))


def decode_limits(data: bytes) -> dict[str, int]:
    return _decode(data, _Limits).limits
