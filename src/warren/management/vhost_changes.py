"""Virtual hosts as requests and definitions files describe them, made or changed."""

from __future__ import annotations

from dataclasses import replace

from warren.auth.permissions import Permission
from warren.auth.users import Vhost
from warren.broker.broker import Broker
from warren.management.access_changes import split_tags
from warren.management.bodies import Body
from warren.management.json_types import JsonObject

_UNSET = frozenset({"", "undefined"})


async def put_vhost(broker: Broker, name: str, body: Body, acting_user: str) -> None:
    """Whoever makes one may do everything in it."""
    metadata = body.object("metadata")
    description = body.text("description", _text(metadata, "description"))
    tags = split_tags(body.get("tags", metadata.get("tags", [])) or [])
    queue_type = _text(metadata, "default_queue_type") or body.text("defaultqueuetype", "")
    tracing = body.boolean("tracing", default=False) if "tracing" in body else None

    def change(old: Vhost) -> Vhost:
        return replace(
            old,
            description=description,
            tags=tags,
            tracing=old.tracing if tracing is None else tracing,
            default_queue_type="" if queue_type in _UNSET else queue_type,
        )

    is_new = name not in broker.vhosts
    if is_new:
        await broker.admin.add_vhost(name, description, tags)
    if broker.access.directory.vhost(name) != change(Vhost(name, description, tags)):
        await broker.admin.replace_vhost(name, change)
    if is_new and broker.access.directory.user(acting_user) is not None:
        await broker.admin.set_permissions(Permission(acting_user, name, ".*", ".*", ".*"))


def _text(members: JsonObject, name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""
