"""A channel: what a client published, has been delivered, and asked for, in order.

The compiled part is here: a publish on a known route and an acknowledgement. Whatever is rare or
has rules to it is in the modules beside, as functions of a channel: `publishing` (finding routes,
looking into properties), `transaction`, and the methods by class.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from warren.channels.confirms import Confirms
from warren.channels.publishing import publish_carefully
from warren.channels.route import Route
from warren.channels.settling import SETTLED_AT_ONCE_MAX, ack_many
from warren.model.errors import precondition_failed
from warren.queues.boundary import PENDING, REJECTED
from warren.queues.consumers import Consumer
from warren.queues.delivery import Deliveries, UnknownDeliveryTag
from warren.wire.codec import Message

if TYPE_CHECKING:
    from warren.auth.permissions import Access, ResourceKind, TopicAccess
    from warren.auth.users import User
    from warren.broker.vhost import VirtualHost
    from warren.channels.reply_registry import ReplyConsumer, ReplyRegistry
    from warren.channels.session_host import SessionHost
    from warren.channels.transaction import Transaction
    from warren.queues.delivery import TurnClock
    from warren.routing.exchange import Exchange
    from warren.wire.codec import OutputBuffer
    from warren.wire.methods import Method


class SessionIntake(Protocol):
    """Where the session's connection puts what comes from the client."""

    is_closed: bool


class ChannelSession(Protocol):
    """The session that a channel belongs to."""

    host: SessionHost
    output: OutputBuffer
    vhost: VirtualHost
    user: User
    turn_clock: TurnClock
    reply_registry: ReplyRegistry

    @property
    def intake(self) -> SessionIntake: ...

    def require(
        self, channel: Channel, kind: ResourceKind, name: str, permission: Access
    ) -> None: ...

    def require_topic(
        self, exchange: Exchange, routing_key: str, permission: TopicAccess
    ) -> None: ...

    def send(self, channel: Channel, method: Method) -> None: ...

    def send_news(self, channel: Channel, method: Method) -> None: ...

    def forget_channel(self, channel: Channel) -> None: ...

    def suspend(
        self, channel: Channel, work: Coroutine[Any, Any, Method | None], ids: tuple[int, int]
    ) -> None:
        """Let the client's later frames wait until this is done."""
        ...


class Channel:
    def __init__(self, session: ChannelSession, number: int) -> None:
        self.session = session
        self.number = number
        self.is_closing = False
        self.output = session.output
        self.vhost = session.vhost
        self.version = session.vhost.version
        self.counters = session.vhost.activity.channel_opened()
        self.deliveries = Deliveries(number, session.output, session.turn_clock, self.counters)
        self.deliveries.trace = session.vhost.firehose.switch
        self.deliveries.channel = self
        self.consumers: dict[str, Consumer] = {}
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.reply_consumer: ReplyConsumer | None = None
        self.last_queue: str | None = None
        self.prefetch = 0
        # Routes used so far, good while the topology's version is the one they were found in.
        self.routes: dict[bytes, Route] = {}
        self.routes_version = 0
        self.allowed: dict[tuple[str, str, str], None] = {}
        self.run_route: Route | None = None
        self.run_length = 0

    @property
    def connection_name(self) -> str:
        return self.session.host.full_name

    @property
    def user_name(self) -> str:
        return self.session.user.name

    def publish(self, message: Message) -> None:
        if self.routes_version != self.version.value:
            self.forget_routes()
        route = self.routes.get(message.route_key)
        if (
            route is None
            or route.width == 0
            or message.flags > 1
            or message.properties.needs_vetting
            or self.transaction is not None
        ):
            publish_carefully(self, message)
            return
        if route is not self.run_route:
            self.settle_run()
            self.run_route = route
        self.run_length += 1
        if self.confirms is None:
            for queue in route.queues:
                queue.publish(message, None, 0)
        else:
            self.send(message, route)

    def settle_run(self) -> None:
        """Count the publishes of a run: the last so many, which all took the same route.

        Whoever lets the channel publish sees to it that this is done before anybody looks.
        """
        if self.run_route is not None:
            self.count(self.run_route, self.run_length)
            self.run_route = None
            self.run_length = 0

    def count(self, route: Route, publishes: int) -> None:
        route.counters.publish_in += publishes
        route.counters.publish_out += publishes * route.width
        self.counters.publish += publishes
        if self.confirms is not None:
            self.counters.publish_confirmed += publishes
        for queue in route.queues:
            queue.counters.publish += publishes

    def send(self, message: Message, route: Route) -> None:
        """Hand the message to its queues and see that the publisher hears of the outcome."""
        confirms = self.confirms
        if confirms is None:
            for queue in route.queues:
                queue.publish(message, None, 0)
            return
        sequence = confirms.begin()
        pending = 0
        is_rejected = False
        for queue in route.queues:
            outcome = queue.publish(message, confirms, sequence)
            if outcome == PENDING:
                pending += 1
            elif outcome == REJECTED:
                is_rejected = True
        if is_rejected:
            confirms.rejected(sequence)
        elif pending:
            confirms.wait_for(sequence, pending)
        else:
            confirms.taken(sequence)

    def forget_routes(self) -> None:
        self.routes = {}
        self.allowed = {}
        self.routes_version = self.version.value

    def ack(self, tag: int, multiple: bool) -> None:
        try:
            if self.transaction is not None:
                self.transaction.ack(tag, multiple)
            elif multiple and len(self.deliveries.unacked) > SETTLED_AT_ONCE_MAX:
                ack_many(self, tag)
            else:
                self.deliveries.ack(tag, multiple)
        except UnknownDeliveryTag as error:
            raise precondition_failed(str(error)) from None
