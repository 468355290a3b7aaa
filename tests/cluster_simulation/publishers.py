"""The publishers of a cluster: on every node, sending again what has no answer, across masters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from replica_world import PERSISTENT, TRANSIENT
from warren.wire.codec import Message, PropertyBlock

if TYPE_CHECKING:
    from cluster_simulation.copy_of_node import SimCopy
    from cluster_simulation.node import SimNode
    from cluster_simulation.world import World

SENT_AGAIN_MAX: Final = 50
ROUTE_KEY: Final = b"\x00\x01q"


class Span(NamedTuple):
    """What a publisher knows of its publishes when it sends some."""

    lowest: int
    """The first one that has no answer."""
    doubtful: int
    """The last one that a former master may have had, and delivered."""


@dataclass
class Publisher:
    """That of one boot of one node."""

    origin: str
    number: int = 0
    unanswered: dict[int, Message] = field(default_factory=dict)
    home: tuple[str, str] = ("", "")
    """The master that publishes were last sent to, and the life of its node, as a link shows it."""
    sent: int = 0
    doubtful: int = 0


class Publishers:
    def __init__(self, world: World) -> None:
        self._world = world
        self._all: dict[str, Publisher] = {}
        self.bodies = 0
        self.rejected: set[int] = set()

    def of(self, node: SimNode) -> Publisher:
        return self._all.setdefault(node.origin, Publisher(node.origin))

    def publish(self, node: SimNode) -> None:
        if not node.is_up or node.is_paused:
            return
        publisher = self.of(node)
        self.bodies += 1
        publisher.number += 1
        message = self._make_message()
        publisher.unanswered[publisher.number] = message
        self._send(node, publisher, [(publisher.number, message)])

    def _make_message(self) -> Message:
        dice = self._world.schedule.random
        is_transient = dice.random() < self._world.transient_chance
        properties = TRANSIENT if is_transient else PERSISTENT
        if is_transient:
            self._world.witness.transient.add(self.bodies)
        if self._world.max_priority is not None:
            priority = dice.randint(0, self._world.max_priority)
            properties = PropertyBlock(bytes([0x18, 0, 1 if is_transient else 2, priority]))
        return Message(ROUTE_KEY, properties, b"%d" % self.bodies)

    def send_again(self, node: SimNode) -> None:
        if node.is_up and not node.is_paused:
            publisher = self.of(node)
            if publisher.unanswered:
                lowest = list(publisher.unanswered.items())[:SENT_AGAIN_MAX]
                self._send(node, publisher, lowest)

    def _send(
        self, node: SimNode, publisher: Publisher, publishes: list[tuple[int, Message]]
    ) -> None:
        record = node.stored.record
        leader = None if record is None else record.find(record.leader)
        if leader is None:
            return
        home = (leader.id, self._world.nodes[leader.node].incarnation)
        if publisher.home != home:
            publisher.home, publisher.doubtful = home, publisher.sent
        publisher.sent = max(publisher.sent, publishes[-1][0])
        span = Span(next(iter(publisher.unanswered)), publisher.doubtful)

        def arrive(at: SimNode) -> None:
            if at.copy is not None:
                at.copy.published(publisher.origin, span, publishes)

        if leader.node == node.name:
            arrive(node)
        else:
            self._world.network.send(node.name, leader.node, arrive)

    def answer(self, copy: SimCopy, origin: str, number: int, is_confirmed: bool) -> None:
        publisher = self._all[origin]
        message = publisher.unanswered.get(number)
        if message is None:
            return
        if is_confirmed:
            self._world.witness.confirms(copy, int(message.body))
        name = origin.split("/", maxsplit=1)[0]

        def arrive(_: SimNode) -> None:
            answered = publisher.unanswered.pop(number, None)
            if answered is None:
                return
            if is_confirmed:
                self._world.witness.heard_confirm(name, int(answered.body))
            else:
                self.rejected.add(int(answered.body))

        if name == copy.node.name:
            arrive(copy.node)
        else:
            self._world.network.send(copy.node.name, name, arrive)
