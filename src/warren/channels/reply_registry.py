"""The registry of direct replies: addresses that lead to channels of this node, and to other nodes.

See `reply_to` for what direct replies are.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from warren.model.counters import MessageCounters
from warren.model.records import QueueRecord
from warren.queues.boundary import TAKEN, AbstractQueue, Publisher
from warren.queues.consumers import Consumer
from warren.wire.codec import Message
from warren.wire.route_key import split_route_key

if TYPE_CHECKING:
    from warren.broker.vhost import VirtualHost
    from warren.queues.delivery import Deliveries

DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"
DIRECT_REPLY_TO_PREFIX: Final = DIRECT_REPLY_TO + "."
_PLAIN_BASE64: Final = str.maketrans("-_", "+/")


class Requester(Protocol):
    """The channel that a reply goes to."""

    vhost: VirtualHost
    deliveries: Deliveries
    is_closing: bool


class ReplyConsumer(AbstractQueue):
    """Looks like a queue to a publisher; is one channel's consumer."""

    def __init__(self, channel: Requester, tag: str, address: str) -> None:
        self.record = QueueRecord(channel.vhost.name, address, durable=False)
        self.counters = MessageCounters()
        self.address = address
        self._channel = channel
        self.consumer = Consumer(self, channel.deliveries, tag, no_ack=True, prefetch=0)

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        if not self._channel.is_closing:
            self.consumer.hand_over(message, False)
        return TAKEN


class ReplyRegistry:
    """All addresses of this node that lead to a living channel, and the way to other nodes'."""

    def __init__(self) -> None:
        self._consumers: dict[str, ReplyConsumer] = {}
        self._node = ""
        self._desk_of: Callable[[str], AbstractQueue | None] | None = None

    def join_cluster(self, node: str, desk_of: Callable[[str], AbstractQueue | None]) -> None:
        """Name this node in addresses; `desk_of` finds where another node takes its replies.

        It returns None for a node that is not up.
        """
        self._node, self._desk_of = node, desk_of

    def address(self, token: str) -> str:
        """Return an address in RabbitMQ's form: prefix, node and token, the last two in base64.

        Tokens are in base64 for URLs, and have no dots.
        """
        secret = token.translate(_PLAIN_BASE64) + "=="
        return f"{DIRECT_REPLY_TO_PREFIX}{_spelled(self._node)}.{secret}"

    def add(self, consumer: ReplyConsumer) -> None:
        self._consumers[consumer.address] = consumer

    def remove(self, consumer: ReplyConsumer) -> None:
        self._consumers.pop(consumer.address, None)

    def route(self, address: str) -> tuple[AbstractQueue, ...]:
        way = self._consumers.get(address) or self._elsewhere(address)
        return () if way is None else (way,)

    def answer(self, address: str, message: Message) -> None:
        """Hand it to whoever asked, if it is still there."""
        for way in self.route(address):
            way.publish(message, None, 0)

    def find(self, address: str) -> ReplyConsumer | None:
        """At this node."""
        return self._consumers.get(address)

    def __contains__(self, address: str) -> bool:
        """True if the address leads to a channel here, or to another node that is up."""
        return bool(self.route(address))

    def _elsewhere(self, address: str) -> AbstractQueue | None:
        spelled, _, _ = address.removeprefix(DIRECT_REPLY_TO_PREFIX).partition(".")
        node = _read(spelled)
        if node in ("", self._node) or self._desk_of is None:
            return None
        return self._desk_of(node)


def _spelled(node: str) -> str:
    """Encode the node's name, with NULs at its end so that the result ends with `==`.

    Some clients' tests match addresses against `amq.rabbitmq.reply-to.*==.*==`.
    """
    name = node.encode()
    return b64encode(name + bytes((1 - len(name)) % 3)).decode()


def _read(spelled: str) -> str:
    """Decode the node's name; returns an empty string for what no node has written."""
    try:
        return b64decode(spelled, validate=True).rstrip(b"\0").decode()
    except ValueError:
        return ""


class ReplyDesk(AbstractQueue):
    """Looks like a queue to other nodes; hands out what they answer to channels of this one."""

    def __init__(self, registry: ReplyRegistry) -> None:
        self.counters = MessageCounters()
        self._registry = registry

    def publish(self, message: Message, publisher: Publisher | None, sequence: int) -> int:
        _, address = split_route_key(message.route_key)
        consumer = self._registry.find(address)
        return TAKEN if consumer is None else consumer.publish(message, publisher, sequence)

    def pump(self) -> None:
        """Nothing is kept."""
