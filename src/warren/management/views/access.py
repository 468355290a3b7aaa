"""Users, permissions and limits as JSON; definitions files hold the same."""

from __future__ import annotations

from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import User
from warren.management.json_types import JsonObject


def show_user(user: User) -> JsonObject:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def show_permission(row: Permission) -> JsonObject:
    return {
        "user": row.user,
        "vhost": row.vhost,
        "configure": row.configure,
        "write": row.write,
        "read": row.read,
    }


def show_topic_permission(row: TopicPermission) -> JsonObject:
    return {
        "user": row.user,
        "vhost": row.vhost,
        "exchange": row.exchange,
        "write": row.write,
        "read": row.read,
    }
