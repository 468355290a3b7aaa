"""Users and permissions as requests and definitions files describe them, put in force."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from warren.auth.admin import AccessAdmin
from warren.auth.passwords import MD5, SHA256, hash_password
from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import ADMINISTRATOR, User
from warren.management.bodies import Body
from warren.management.errors import bad_request
from warren.management.json_types import Json

# Before 3.6 passwords were hashed with MD5, and files of that time do not say so.
_FIRST_WITH_SHA256: Final = (3, 6)


async def put_user(admin: AccessAdmin, name: str, body: Body, version: str = "") -> None:
    """`version` is RabbitMQ's that wrote it: it tells how passwords were hashed when unsaid."""
    tags = tags_of(body)
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    stored, algorithm = "", SHA256
    if "password" in body:
        stored = hash_password(body.text("password", ""))
    elif "password_hash" in body:
        stored = _password_hash(body)
        algorithm = body.text("hashing_algorithm", _default_algorithm(version))
    await admin.put_user(User(name, stored, algorithm, tags, limits_of(body)))


def tags_of(body: Body) -> tuple[str, ...]:
    if "tags" not in body:
        if "administrator" not in body:
            raise bad_request("tags_not_present")
        return (ADMINISTRATOR,) if body.boolean("administrator", default=False) else ()
    return split_tags(body.get("tags"))


def split_tags(value: Json) -> tuple[str, ...]:
    """A list, or names with commas between them, as files before 3.9 have it."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise bad_request(["invalid_tags", value])
    return tuple(dict.fromkeys(tag.strip() for tag in value if tag.strip()))


def limits_of(body: Body) -> dict[str, int]:
    return {name: whole_number(value) for name, value in body.object("limits").items()}


def whole_number(value: Json) -> int:
    """A limit's value; what is no number passes on, to be refused by name."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value  # type: ignore[no-any-return]


async def put_permission(admin: AccessAdmin, user: str, vhost: str, body: Body) -> None:
    patterns = body.texts("configure", "write", "read")
    await admin.set_permissions(Permission(user, vhost, *patterns))


async def put_topic_permission(admin: AccessAdmin, user: str, vhost: str, body: Body) -> None:
    exchange, write, read = body.texts("exchange", "write", "read")
    await admin.set_topic_permissions(TopicPermission(user, vhost, exchange, write, read))


def _password_hash(body: Body) -> str:
    stored = body.text("password_hash", "")
    try:
        base64.b64decode(stored, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", stored]) from None
    return stored


def _default_algorithm(version: str) -> str:
    numbers = version.split(".")[:2]
    if not all(number.isdecimal() for number in numbers) or len(numbers) < 2:
        return SHA256
    return MD5 if tuple(map(int, numbers)) < _FIRST_WITH_SHA256 else SHA256
