"""The firehose: a copy of every message published to and delivered from a virtual host.

While tracing is on, `amq.rabbitmq.trace` gets `publish.EXCHANGE` for each message that comes in and
`deliver.QUEUE` for each that goes out: the body as it is, and in the headers who, where and what.
What the exchange's own queues deliver is not traced again.

While it is off nothing is different from a broker without one. A publish is traced on the way that
finds routes, and while tracing is on no route is kept, so that every publish goes that way; a
delivery looks at one attribute (`queues/trace_switch`).

Copies are published at the end of the turn: in the middle of it, the queue they go to may be the
very one that is delivering. More in one turn than a bound allows are not traced.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final, Protocol

from warren.model.clock import Clock
from warren.model.fields import Field, Table, array, long, longstr
from warren.model.logs import EventLog
from warren.queues.trace_switch import TraceSwitch
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, decode_properties, encode_properties
from warren.wire.route_key import make_route_key, split_route_key

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost
    from warren.queues.boundary import AbstractQueue

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
COPIES_PER_TURN_MAX: Final = 65_536
_INT32_MAX: Final = (1 << 31) - 1

_log = EventLog("firehose")


class Traced(Protocol):
    """Through whom a message comes or goes: a channel."""

    @property
    def number(self) -> int: ...

    @property
    def connection_name(self) -> str: ...

    @property
    def user_name(self) -> str: ...


class Firehose:
    def __init__(self, vhost: VirtualHost, clock: Clock, node_name: str) -> None:
        self._vhost = vhost
        self._clock = clock
        self._node_name = node_name
        self._waiting: list[Message] = []
        self.switch = TraceSwitch()
        self.switch.tell = self.delivered

    @property
    def is_on(self) -> bool:
        return self.switch.is_on

    def turn(self, is_on: bool) -> None:
        if is_on == self.switch.is_on:
            return
        self.switch.is_on = is_on
        self._vhost.version.bump()

    def published(
        self,
        channel: Traced,
        message: Message,
        keys: Sequence[str],
        queues: Iterable[AbstractQueue],
    ) -> None:
        exchange = split_route_key(message.route_key)[0]
        routed = array(longstr(queue.record.name) for queue in queues)
        headers = [*self._headers(channel, message, keys), ("routed_queues", routed)]
        self._copy(f"publish.{exchange}", message, Table(headers))

    def delivered(
        self, channel: Traced, queue: AbstractQueue, message: Message, is_redelivered: bool
    ) -> None:
        exchange, routing_key = split_route_key(message.route_key)
        if exchange == TRACE_EXCHANGE:
            return
        redelivered = ("redelivered", _number(int(is_redelivered)))
        keys = [routing_key, *_carbon_copy_keys(message)]
        headers = [*self._headers(channel, message, keys), redelivered]
        self._copy(f"deliver.{queue.record.name}", message, Table(headers))

    def _headers(
        self, channel: Traced, message: Message, keys: Sequence[str]
    ) -> list[tuple[str, Field]]:
        properties = decode_properties(message.properties.raw)
        return [
            ("exchange_name", longstr(split_route_key(message.route_key)[0])),
            ("routing_keys", array(longstr(key) for key in keys)),
            ("properties", Field("F", _shown(properties))),
            ("node", longstr(self._node_name)),
            ("vhost", longstr(self._vhost.name)),
            ("connection", longstr(channel.connection_name)),
            ("channel", _number(channel.number)),
            ("user", longstr(channel.user_name)),
        ]

    def _copy(self, routing_key: str, message: Message, headers: Table) -> None:
        if len(self._waiting) >= COPIES_PER_TURN_MAX:
            return
        if not self._waiting:
            self._clock.call_later(0, self._publish)
        block = PropertyBlock(encode_properties(Properties(headers=headers)))
        route_key = make_route_key(TRACE_EXCHANGE, routing_key)
        self._waiting.append(Message(route_key, block, message.body))

    def _publish(self) -> None:
        copies, self._waiting = self._waiting, []
        if len(copies) == COPIES_PER_TURN_MAX:
            _log.warning("firehose overloaded: messages not traced", limit=COPIES_PER_TURN_MAX)
        for copy in copies:
            routing_key = split_route_key(copy.route_key)[1]
            for queue in self._vhost.route(TRACE_EXCHANGE, [routing_key], None):
                queue.publish(copy, None, 0)


def _carbon_copy_keys(message: Message) -> list[str]:
    headers = decode_properties(message.properties.raw).headers
    copies = None if headers is None else headers.get("CC")
    if copies is None or copies.kind != "A" or not isinstance(copies.value, tuple):
        return []
    keys = [key.value for key in copies.value if isinstance(key, Field)]
    return [key.decode(errors="surrogateescape") for key in keys if isinstance(key, bytes)]


def _shown(properties: Properties) -> Table:
    """Those that are set, by name, the last one first as in RabbitMQ."""
    shown: list[tuple[str, Field]] = []
    for each in reversed(fields(Properties)):
        value = getattr(properties, each.name)
        if isinstance(value, Table):
            shown.append((each.name, Field("F", value)))
        elif isinstance(value, int):
            shown.append((each.name, _number(value)))
        elif value is not None:
            shown.append((each.name, longstr(value.encode(errors="surrogateescape"))))
    return Table(shown)


def _number(value: int) -> Field:
    return Field("I", value) if value <= _INT32_MAX else long(value)
