"""Making what a definitions file describes: RabbitMQ's of 3.8 to 3.13, or our own.

Nothing is taken away, and queues and exchanges that exist stay as they are, also where the file has
them otherwise. A file may hold very much, so its members are decoded one at a time, and many are
on their way to the store at once: the store writes what gathers as one batch. In the first place
it is done in the order in which things stand on each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from warren.auth.admin import NoSuchVhost
from warren.broker.parameter_operations import ParameterInvalid
from warren.broker.vhost import VirtualHost
from warren.management.access_changes import put_permission, put_topic_permission, put_user
from warren.management.arguments import table_from_json
from warren.management.bodies import Body
from warren.management.declaring import NO_CONNECTION
from warren.management.definitions_export import RESERVED_PREFIX
from warren.management.errors import bad_request, without_tags
from warren.management.sorting import in_slices
from warren.management.vhost_changes import put_vhost
from warren.model.errors import AmqpError
from warren.model.logs import EventLog
from warren.model.records import (
    BindingRecord,
    Destination,
    DestinationKind,
    ExchangeRecord,
    QueueRecord,
)
from warren.model.unreadable import UNREADABLE
from warren.policy.validation import PolicyInvalid, parse_policy

if TYPE_CHECKING:
    from warren.server.node import Node

# Members under way at the same time.
TOGETHER_MAX: Final = 16
COUNTED_AT_ONCE_MAX: Final = 500
_NOT_JSON: Final = "failed_to_parse_json"

Document: TypeAlias = dict[str, list[msgspec.Raw]]
Step: TypeAlias = Callable[[Body], Awaitable[None]]

_document: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_section: Final = msgspec.json.Decoder(list[msgspec.Raw])
_log = EventLog("management")


class _Place(msgspec.Struct):
    name: str = ""
    vhost: str = ""


def parse_definitions(raw: bytes) -> tuple[Document, str]:
    """The lists of the document, undecoded, and the version of RabbitMQ that wrote it."""
    try:
        members = _document.decode(raw or b"{}")
        sections = {
            name: _section.decode(value) for name, value in members.items() if name in SECTIONS
        }
        versions = [
            members[name] for name in ("rabbitmq_version", "rabbit_version") if name in members
        ]
        version = msgspec.json.decode(versions[0]) if versions else ""
    except UNREADABLE:
        raise bad_request(_NOT_JSON) from None
    return sections, version if isinstance(version, str) else ""


class DefinitionsImport:
    """Into all virtual hosts that the file names, or all of it into one."""

    def __init__(self, node: Node, acting_user: str, only_vhost: str | None = None) -> None:
        self._node = node
        self._broker = node.broker
        self._acting_user = acting_user
        self._only_vhost = only_vhost
        self._version = ""

    async def run(self, raw: bytes) -> None:
        """Raises a bad request at the first thing that cannot be; what came before it stays."""
        document, self._version = parse_definitions(raw)
        if self._only_vhost is None:
            await self._together(document, "users", self._user)
            await self._together(document, "vhosts", self._vhost)
        await self._require_room(document)
        if self._only_vhost is None:
            await self._together(document, "permissions", self._permission)
            await self._together(document, "topic_permissions", self._topic_permission)
        await self._together(document, "exchanges", self._exchange)
        if self._only_vhost is None:
            await self._in_turn(document, "global_parameters", self._global_parameter)
        await self._in_turn(document, "policies", self._policy)
        await self._in_turn(document, "parameters", self._parameter)
        await self._together(document, "queues", self._queue)
        await self._together(document, "bindings", self._binding)
        counts = {name: len(items) for name, items in document.items()}
        _log.info("definitions imported", user=self._acting_user, **counts)

    # In which way.

    async def _together(self, document: Document, section: str, step: Step) -> None:
        async for items in in_slices(document.get(section, []), TOGETHER_MAX):
            steps = (step(_member(section, item)) for item in items)
            for result in await asyncio.gather(*steps, return_exceptions=True):
                if isinstance(result, AmqpError):
                    raise bad_request(result.explanation) from result
                if isinstance(result, BaseException):
                    raise result

    async def _in_turn(self, document: Document, section: str, step: Step) -> None:
        async for items in in_slices(document.get(section, []), 1):
            await step(_member(section, items[0]))

    # What.

    async def _user(self, body: Body) -> None:
        (name,) = body.texts("name")
        await put_user(self._broker.admin, name, body, self._version)

    async def _vhost(self, body: Body) -> None:
        (name,) = body.texts("name")
        await put_vhost(self._broker, name, body, self._acting_user)

    async def _permission(self, body: Body) -> None:
        user, vhost = body.texts("user", "vhost")
        await put_permission(self._broker.admin, user, vhost, body)

    async def _topic_permission(self, body: Body) -> None:
        user, vhost = body.texts("user", "vhost")
        await put_topic_permission(self._broker.admin, user, vhost, body)

    async def _global_parameter(self, body: Body) -> None:
        name, value = body.require("name", "value")
        if not isinstance(name, str):
            raise bad_request(["not_string", "name"])
        await self._broker.parameters.set_global(name, value)

    async def _policy(self, body: Body) -> None:
        vhost, (name,) = self._vhost_of(body), body.texts("name")
        terms = {member: body.get(member) for member in ("pattern", "definition") if member in body}
        terms |= {"priority": body.get("priority", 0), "apply-to": body.get("apply-to", "all")}
        try:
            await self._broker.policies.set(parse_policy(vhost.name, name, terms))
        except PolicyInvalid as error:
            raise bad_request(without_tags(f"{error} ({vhost.name}/{name})")) from None

    async def _parameter(self, body: Body) -> None:
        vhost, (component, name) = self._vhost_of(body), body.texts("component", "name")
        try:
            await self._broker.parameters.set(component, vhost.name, name, body.get("value"))
        except ParameterInvalid as error:
            place = f" ({vhost.name}/{component}/{name})"
            raise bad_request(without_tags(f"{error}{place}")) from None

    async def _exchange(self, body: Body) -> None:
        vhost, (name, type_) = self._vhost_of(body), body.texts("name", "type")
        if not name or name.startswith(RESERVED_PREFIX):
            _log.warning("not imported: the name is reserved", vhost=vhost.name, exchange=name)
            return
        if name in vhost.exchanges:
            return
        await vhost.declare_exchange(
            ExchangeRecord(
                vhost.name,
                name,
                type_,
                durable=body.boolean("durable", default=False),
                auto_delete=body.boolean("auto_delete", default=False),
                internal=body.boolean("internal", default=False),
                arguments=table_from_json(body.object("arguments")),
                created_by=self._acting_user,
            )
        )

    async def _queue(self, body: Body) -> None:
        vhost, (name,) = self._vhost_of(body), body.texts("name")
        if name.startswith(RESERVED_PREFIX):
            _log.warning("not imported: the name is reserved", vhost=vhost.name, queue=name)
            return
        if name in vhost.queues:
            return
        record = QueueRecord(
            vhost.name,
            name,
            durable=body.boolean("durable", default=False),
            auto_delete=body.boolean("auto_delete", default=False),
            arguments=table_from_json(body.object("arguments")),
            created_by=self._acting_user,
        )
        await self._node.messages.open(vhost.name)
        await vhost.declare_named_queue(vhost.named(record))

    async def _binding(self, body: Body) -> None:
        """One that lacks an end is left out without a word, as RabbitMQ does it."""
        vhost = self._vhost_of(body)
        source, destination, kind = body.texts("source", "destination", "destination_type")
        is_queue = kind == DestinationKind.QUEUE.value
        ends = vhost.queues if is_queue else vhost.exchanges
        if not source or source not in vhost.exchanges or destination not in ends:
            return
        target = DestinationKind.QUEUE if is_queue else DestinationKind.EXCHANGE
        binding = BindingRecord(
            vhost.name,
            source,
            Destination(target, destination),
            body.text("routing_key", ""),
            table_from_json(body.object("arguments")),
        )
        await vhost.bind(binding, NO_CONNECTION)

    # Where.

    def _vhost_of(self, body: Body) -> VirtualHost:
        name = self._only_vhost or body.get("vhost", "undefined")
        vhost = self._broker.vhosts.get(name) if isinstance(name, str) else None
        if vhost is None:
            raise NoSuchVhost(str(name))
        return vhost

    async def _require_room(self, document: Document) -> None:
        """A virtual host whose queues would be too many gets none of them."""
        new: Counter[str] = Counter()
        async for items in in_slices(document.get("queues", []), COUNTED_AT_ONCE_MAX):
            for item in items:
                place = _place(item)
                name = self._only_vhost or place.vhost
                vhost = self._broker.vhosts.get(name)
                if vhost is not None and place.name not in vhost.queues:
                    new[name] += 1
        for name, count in new.items():
            limit = self._broker.access.vhost_queues_max(name)
            there = len(self._broker.vhosts[name].queues)
            if limit is not None and there + count > limit:
                raise bad_request(
                    f'Adding {count} queue(s) to virtual host "{name}" would exceed the limit '
                    f"of {limit} queue(s).\n\nThis virtual host currently has {there} queue(s) "
                    "defined.\n\nImport aborted!"
                )


SECTIONS: Final = frozenset(
    {
        "users", "vhosts", "permissions", "topic_permissions", "exchanges", "global_parameters",
        "policies", "parameters", "queues", "bindings",
    }
)  # fmt: skip


def _member(section: str, raw: msgspec.Raw) -> Body:
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:  # what is between the brackets of a list is looked at here, not before
        raise bad_request(f"{_NOT_JSON}: an entry of {section} cannot be decoded") from None
    if not isinstance(value, dict):
        raise bad_request(["not_an_object", section])
    return Body(value)


def _place(raw: msgspec.Raw) -> _Place:
    try:
        return msgspec.json.decode(raw, type=_Place)
    except UNREADABLE:
        return _Place()
