"""The administration of access, with everything it does told as events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from warren.auth.access import AccessControl
from warren.auth.admin import AccessAdmin, Defaults
from warren.auth.permissions import Permission, TopicPermission
from warren.auth.users import User, Vhost
from warren.broker.events import EventBus, Properties
from warren.broker.predeclared import predeclared_exchanges
from warren.broker.topology_events import exchange_created
from warren.metadata.store import MetadataStore
from warren.model.json_terms import JsonValue, render_json


class EventAdmin(AccessAdmin):
    def __init__(
        self,
        store: MetadataStore,
        access: AccessControl,
        events: EventBus,
        defaults: Defaults | None = None,
    ) -> None:
        super().__init__(store, access, defaults)
        self._events = events
        self._known = access.directory

    # Users.

    async def add_user(self, name: str, password: str, tags: Iterable[str] = ()) -> None:
        tags = tuple(tags)
        await super().add_user(name, password, tags)
        self._tell("user.created", name=name)
        self._tags_set(name, tags)

    async def put_user(self, user: User) -> None:
        is_new = self._known.user(user.name) is None
        await super().put_user(user)
        if is_new:
            self._tell("user.created", name=user.name)
        elif user.password_hash:
            self._tell("user.password.changed", name=user.name)
        else:
            self._tell("user.password.cleared", name=user.name)
        self._tags_set(user.name, user.tags)

    async def set_password(self, name: str, password: str) -> None:
        await super().set_password(name, password)
        self._tell("user.password.changed", name=name)

    async def clear_password(self, name: str) -> None:
        await super().clear_password(name)
        self._tell("user.password.cleared", name=name)

    async def set_tags(self, name: str, tags: Iterable[str]) -> None:
        tags = tuple(tags)
        await super().set_tags(name, tags)
        self._tags_set(name, tags)

    async def delete_user(self, name: str) -> None:
        await super().delete_user(name)
        self._tell("user.deleted", name=name)

    async def set_user_limits(self, name: str, limits: Mapping[str, int]) -> None:
        await super().set_user_limits(name, limits)
        if limits:
            self._tell("user.limits.set", **limits, username=name, name="limits")
        else:
            self._tell("user.limits.cleared", username=name, name="limits")

    # Virtual hosts.

    async def add_vhost(self, name: str, description: str = "", tags: Iterable[str] = ()) -> None:
        tags = tuple(tags)
        is_new = not self._known.has_vhost(name)
        await super().add_vhost(name, description, tags)
        if is_new:
            for exchange in predeclared_exchanges(name):
                exchange_created(self._events, exchange)
            self._vhost_told("vhost.created", name)

    async def replace_vhost(self, name: str, change: Callable[[Vhost], Vhost]) -> None:
        await super().replace_vhost(name, change)
        self._vhost_told("vhost.updated", name)

    async def delete_vhost(self, name: str) -> None:
        await super().delete_vhost(name)
        self._tell("vhost.deleted", name=name)

    async def set_vhost_limits(self, name: str, limits: Mapping[str, int]) -> None:
        await super().set_vhost_limits(name, limits)
        parameter: dict[str, JsonValue] = {
            "name": "limits",
            "component": "vhost-limits",
            "vhost": name,
        }
        if limits:
            self._tell("parameter.set", value=dict(limits), **parameter)
            self._tell("vhost.limits.set", **limits, name="limits")
        else:
            self._tell("parameter.cleared", **parameter)
            self._tell("vhost.limits.cleared", name="limits")

    # Permissions.

    async def set_permissions(self, permission: Permission) -> None:
        await super().set_permissions(permission)
        self._tell(
            "permission.created",
            read=permission.read,
            write=permission.write,
            configure=permission.configure,
            vhost=permission.vhost,
            user=permission.user,
        )

    async def clear_permissions(self, user: str, vhost: str) -> None:
        await super().clear_permissions(user, vhost)
        self._tell("permission.deleted", vhost=vhost, user=user)

    async def set_topic_permissions(self, permission: TopicPermission) -> None:
        await super().set_topic_permissions(permission)
        self._tell(
            "topic.permission.created",
            read=permission.read,
            write=permission.write,
            exchange=permission.exchange,
            vhost=permission.vhost,
            user=permission.user,
        )

    async def clear_topic_permissions(
        self, user: str, vhost: str, exchange: str | None = None
    ) -> None:
        await super().clear_topic_permissions(user, vhost, exchange)
        self._tell("topic.permission.deleted", vhost=vhost, user=user)

    # How it is told.

    def _tell(self, event: str, **properties: JsonValue) -> None:
        self._events.tell(event, lambda: properties)

    def _tags_set(self, name: str, tags: tuple[str, ...]) -> None:
        self._tell("user.tags.set", tags=tags, name=name)

    def _vhost_told(self, event: str, name: str) -> None:
        vhost = self._known.vhost(name)
        if vhost is not None:
            self._events.tell(event, lambda: self._describe(vhost))

    def _describe(self, vhost: Vhost) -> Properties:
        description = render_json(vhost.description) if vhost.description else "<<>>"
        return {
            "tags": vhost.tags,
            "description": vhost.description,
            "cluster_state": {self._events.node_name: "running"},
            "tracing": vhost.tracing,
            "metadata": f"#{{description => {description},tags => [{','.join(vhost.tags)}]}}",
            "default_queue_type": vhost.default_queue_type or "undefined",
            "name": vhost.name,
        }
