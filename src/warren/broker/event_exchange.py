"""`amq.rabbitmq.event`: events as messages, for those who bind a queue to it.

As RabbitMQ's plug-in of that name has it, the routing key is the event's name, the headers are its
properties, there is no body, and the exchange is in the default virtual host.

Events are published at the end of the turn they happened in: in the middle of it, the queue they
go to may be the very one they are about. More in one turn than a bound allows are not told, but
counted, and the count is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from warren.broker.events import Event
from warren.broker.events import Properties as EventProperties
from warren.broker.predeclared import EVENT_EXCHANGE, EVENT_VHOST
from warren.model.clock import Clock
from warren.model.fields import Field, Table, array, long, longstr
from warren.model.json_terms import JsonValue
from warren.model.logs import EventLog
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import Properties, encode_properties
from warren.wire.route_key import make_route_key

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost

EVENTS_PER_TURN_MAX: Final = 16_384
EVENTS_DROPPED: Final = "warren.events.dropped"
_PERSISTENT: Final = 2

_log = EventLog("events")


class EventExchange:
    def __init__(
        self, vhosts: Mapping[str, VirtualHost], clock: Clock, node_name: Callable[[], str]
    ) -> None:
        self._vhosts = vhosts
        self._node_name = node_name
        self._clock = clock
        self._waiting: list[Event] = []
        self.dropped = 0
        """How many events were never told."""
        self._dropped_before = 0

    def wants(self, name: str) -> bool:
        vhost = self._vhosts.get(EVENT_VHOST)
        return vhost is not None and vhost.routes.may_route(vhost.exchanges[EVENT_EXCHANGE], name)

    def hear(self, event: Event) -> None:
        if len(self._waiting) >= EVENTS_PER_TURN_MAX:
            self.dropped += 1
            return
        if not self._waiting:
            self._clock.call_later(0, self._publish)
        self._waiting.append(event)

    def _publish(self) -> None:
        events, self._waiting = self._waiting, []
        vhost = self._vhosts.get(EVENT_VHOST)
        if self.dropped > self._dropped_before:
            events.append(self._confess())
        if vhost is None:
            return
        for event in events:
            headers = _headers(event)
            queues = vhost.route(EVENT_EXCHANGE, [event.name], headers)
            if queues:
                message = _message(event, headers)
                for queue in queues:
                    queue.publish(message, None, 0)

    def _confess(self) -> Event:
        count, self._dropped_before = self.dropped - self._dropped_before, self.dropped
        _log.warning("events dropped: too many at once", limit=EVENTS_PER_TURN_MAX, dropped=count)
        about: EventProperties = {"node": self._node_name(), "count": count, "total": self.dropped}
        return Event(EVENTS_DROPPED, self._clock.now_ms(), about)


def _message(event: Event, headers: Table) -> Message:
    properties = Properties(
        headers=headers, delivery_mode=_PERSISTENT, timestamp=event.at_ms // 1_000
    )
    block = PropertyBlock(encode_properties(properties))
    return Message(make_route_key(EVENT_EXCHANGE, event.name), block, b"")


def _headers(event: Event) -> Table:
    headers = [(name, _field(value)) for name, value in event.properties.items()]
    return Table([*headers, ("timestamp_in_ms", long(event.at_ms))])


def _field(value: JsonValue) -> Field:
    match value:
        case None:
            return longstr("")
        case bool():
            return Field("t", value)
        case int():
            return long(value) if abs(value) < 1 << 63 else longstr(str(value))
        case float():
            return Field("d", value)
        case str():
            return longstr(value)
        case Mapping():
            return Field("F", Table((name, _field(member)) for name, member in value.items()))
        case Sequence():
            return array(_field(member) for member in value)
