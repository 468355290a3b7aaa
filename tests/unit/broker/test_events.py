"""Events: told by name to whoever listens, put together only then, and bounded."""

from __future__ import annotations

from pathlib import Path

from broker_world import BrokerWorld, publish_to
from manual_clock import ManualClock
from warren.broker.event_exchange import EVENTS_PER_TURN_MAX
from warren.broker.events import ACTING_USER, NOBODY, Event, EventBus, Properties
from warren.broker.firehose import COPIES_PER_TURN_MAX
from warren.flow.alarms import AlarmBoard, Resource
from warren.model.records import BindingRecord, Destination, DestinationKind, QueueRecord
from warren.queues.queue import Queue
from warren.server.connection_events import alarm_changed
from warren.wire.codec import Message, PropertyBlock
from warren.wire.properties import decode_properties
from warren.wire.route_key import make_route_key, split_route_key


class Ears:
    def __init__(self, is_listening: bool = True) -> None:
        self._is_listening = is_listening
        self.heard: list[Event] = []

    def wants(self, name: str) -> bool:
        return self._is_listening

    def hear(self, event: Event) -> None:
        self.heard.append(event)


class Somebody:
    number = 3
    connection_name = "a connection"
    user_name = "somebody"


async def listen(world: BrokerWorld, exchange: str) -> Queue:
    """A queue that gets whatever the exchange is told."""
    queue = await world.vhost.declare_queue(QueueRecord("/", "ears"), False, "me")
    destination = Destination(DestinationKind.QUEUE, "ears")
    await world.vhost.bind(BindingRecord("/", exchange, destination, "#"), "me")
    return queue


def test_nothing_is_put_together_for_those_who_do_not_listen() -> None:
    bus, ears = EventBus(ManualClock()), Ears(is_listening=False)
    bus.listeners.append(ears)

    def describe() -> Properties:
        raise AssertionError("nobody listens")

    bus.tell("queue.created", describe)
    assert ears.heard == []


def test_an_event_says_who_did_it_unless_that_is_no_part_of_it() -> None:
    bus, ears = EventBus(ManualClock()), Ears()
    bus.listeners.append(ears)
    bus.tell("a", lambda: {"k": 1})
    token = ACTING_USER.set("me")
    bus.tell("b", dict)
    bus.tell("c", dict, by="another")
    ACTING_USER.reset(token)
    bus.tell("d", dict, by=NOBODY)
    assert [event.properties for event in ears.heard] == [
        {"user_who_performed_action": "rmq-internal", "k": 1},
        {"user_who_performed_action": "me"},
        {"user_who_performed_action": "another"},
        {},
    ]


async def test_the_exchange_listens_while_something_is_bound_to_it(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        (exchange,) = world.broker.events.listeners
        assert not exchange.wants("binding.created")
        queue = await listen(world, "amq.rabbitmq.event")
        assert exchange.wants("binding.created")
        world.host.clock.advance(0)
        head = queue.get()
        assert head is not None
        assert split_route_key(head.message.route_key) == ("amq.rabbitmq.event", "binding.created")
        headers = decode_properties(head.message.properties.raw).headers
        assert headers is not None
        assert [name for name, _ in headers][-1] == "timestamp_in_ms"


async def test_more_events_than_a_turn_may_have_are_not_kept(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await listen(world, "amq.rabbitmq.event")
        world.host.clock.advance(0)
        queue.purge()
        for _ in range(EVENTS_PER_TURN_MAX + 5):
            world.broker.events.tell("alarm.set", dict, NOBODY)
        world.host.clock.advance(0)
        assert queue.message_count == EVENTS_PER_TURN_MAX + 1
        last = (await queue.backing.browse(EVENTS_PER_TURN_MAX, 1, 1_000_000))[0].message
        assert split_route_key(last.route_key)[1] == "warren.events.dropped"
        headers = decode_properties(last.properties.raw).headers
        assert headers is not None
        told = {name: field.value for name, field in headers}
        assert (told["count"], told["total"]) == (5, world.broker.event_exchange.dropped)


async def test_an_event_that_no_binding_wants_is_not_put_together(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        await world.vhost.declare_queue(QueueRecord("/", "ears"), False, "me")
        ears = Destination(DestinationKind.QUEUE, "ears")
        binding = BindingRecord("/", "amq.rabbitmq.event", ears, "queue.*")
        await world.vhost.bind(binding, "me")
        assert world.broker.events.wants("queue.created")
        assert not world.broker.events.wants("warren.queue.stats")
        headers = BindingRecord(
            "/", "amq.rabbitmq.event", Destination(DestinationKind.EXCHANGE, "amq.headers"), "#"
        )
        await world.vhost.bind(headers, "me")
        assert world.broker.events.wants("warren.queue.stats"), "its headers may decide"


async def test_more_copies_than_a_turn_may_have_are_not_kept(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await listen(world, "amq.rabbitmq.trace")
        message = Message(make_route_key("x", "k"), PropertyBlock(b"\0\0"), b"body")
        for _ in range(COPIES_PER_TURN_MAX + 5):
            world.vhost.firehose.published(Somebody(), message, ["k"], [queue])
        world.host.clock.advance(0)
        assert queue.message_count == COPIES_PER_TURN_MAX


async def test_what_the_firehose_itself_delivers_is_not_traced(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await listen(world, "amq.rabbitmq.trace")
        copy = Message(make_route_key("amq.rabbitmq.trace", "k"), PropertyBlock(b"\0\0"), b"")
        world.vhost.firehose.delivered(Somebody(), queue, copy, False)
        world.host.clock.advance(0)
        assert queue.message_count == 0


async def test_tracing_is_of_the_virtual_host_and_lasts(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        before = world.vhost.generation
        await world.broker.admin.replace_vhost("/", lambda old: type(old)(old.name, tracing=True))
        assert world.vhost.firehose.is_on
        assert world.vhost.generation > before, "channels must forget the routes they know"
    async with BrokerWorld(tmp_path) as world:
        assert world.vhost.firehose.is_on


async def test_a_queue_may_hear_of_itself(tmp_path: Path) -> None:
    async with BrokerWorld(tmp_path) as world:
        queue = await listen(world, "amq.rabbitmq.event")
        publish_to(queue)
        await world.vhost.delete_queue("ears", False, False, "me")
        world.host.clock.advance(0)
        assert "ears" not in world.vhost.queues


def test_alarms_are_told() -> None:
    clock, ears = ManualClock(), Ears()
    bus, board = EventBus(clock), AlarmBoard(clock)
    bus.listeners.append(ears)
    board.listeners.append(lambda change: alarm_changed(bus, change))
    board.set("me@here", Resource.DISK)
    board.clear("me@here", Resource.DISK)
    assert [(event.name, event.properties) for event in ears.heard] == [
        ("alarm.set", {"source": "disk", "node": "me@here"}),
        ("alarm.cleared", {"source": "disk", "node": "me@here"}),
    ]
