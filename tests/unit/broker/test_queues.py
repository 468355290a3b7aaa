"""queue.declare and queue.delete; the texts were recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

import asyncio

import pytest

from broker_world import BrokerWorld, add_consumer, publish_to
from topology_samples import binding, exchange, queue
from warren.broker.vhost import VirtualHost
from warren.model.errors import AmqpError, SoftError

LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)


def said(caught: pytest.ExceptionInfo[AmqpError]) -> tuple[int, str]:
    return caught.value.code, caught.value.explanation


async def test_declaring_twice_alike_gives_the_same_queue(vhost: VirtualHost) -> None:
    first = await vhost.declare_queue(queue("q"), False, "c")
    assert await vhost.declare_queue(queue("q"), False, "other") is first


async def test_a_queue_without_a_name_gets_a_new_one_each_time(vhost: VirtualHost) -> None:
    names = {(await vhost.declare_queue(queue(""), False, "c")).record.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("amq.gen-") and len(name) == 30 for name in names)
    assert names == set(vhost.queues)


async def test_only_classic_queues_are_named_by_the_server(vhost: VirtualHost) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(queue("", {"x-queue-type": "quorum"}), False, "c")
    text = "Cannot declare a server-named queue for type rabbit_quorum_queue"
    assert said(refused) == (406, text)


async def test_reserved_names_are_refused_even_of_queues_that_exist(vhost: VirtualHost) -> None:
    """RabbitMQ looks at the name before it looks for the queue."""
    made = await vhost.declare_queue(queue(""), False, "c")
    for name in ("amq.mine", made.record.name):
        with pytest.raises(SoftError) as refused:
            await vhost.declare_queue(queue(name), False, "c")
        assert said(refused) == (403, f"queue name '{name}' contains reserved prefix 'amq.*'")


async def test_a_name_may_be_settled_before_the_queue_is_declared(vhost: VirtualHost) -> None:
    """As whoever checks permissions needs it."""
    record = vhost.named(queue(""))
    assert vhost.named(queue("q")) == queue("q")
    made = await vhost.declare_named_queue(record)
    assert made.record.name == record.name
    with pytest.raises(SoftError):
        vhost.named(queue("amq.mine"))


@pytest.mark.parametrize("name", ["q", "amq.q", ""])
async def test_a_passive_declare_of_what_is_missing_finds_nothing(
    vhost: VirtualHost, name: str
) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(queue(name), True, "c")
    assert said(refused) == (404, f"no queue '{name}' in vhost '/'")


async def test_a_passive_declare_looks_only_at_the_name(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    asked = queue("q", {"x-message-ttl": -1}, durable=False, auto_delete=True)
    assert await vhost.declare_queue(asked, True, "c") is made


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (queue("q", durable=False), "'durable' {}: received 'false' but current is 'true'"),
        (
            queue("q", auto_delete=True),
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (
            queue("q", {"x-message-ttl": 1000}),
            "'x-message-ttl' {}: received the value '1000' of type 'signedint' but current is none",
        ),
    ],
)
async def test_declaring_otherwise_is_refused(vhost: VirtualHost, again: object, text: str) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(again, False, "c")
    expected = "inequivalent arg " + text.format("for queue 'q' in vhost '/'")
    assert said(refused) == (406, expected)


async def test_bad_arguments_make_no_queue(vhost: VirtualHost) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(queue("q", {"x-message-ttl": -1}), False, "c")
    text = "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': {value_negative,-1}"
    assert said(refused) == (406, text)
    assert "q" not in vhost.queues


async def test_an_existing_queue_is_compared_before_arguments_are_checked(
    vhost: VirtualHost,
) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    with pytest.raises(SoftError, match="inequivalent arg 'x-message-ttl'"):
        await vhost.declare_queue(queue("q", {"x-message-ttl": -1}), False, "c")


async def test_an_exclusive_queue_is_never_durable(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q", durable=True, owner="c"), False, "c")
    assert not made.record.durable
    assert await vhost.declare_queue(queue("q", durable=True, owner="c"), False, "c") is made


async def test_an_exclusive_queue_is_locked_to_others(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q", owner="c"), False, "c")
    assert vhost.lookup_queue("q", "c") is made
    attempts = [
        lambda: vhost.declare_queue(queue("q"), False, "other"),
        lambda: vhost.declare_queue(queue("q", owner="other"), False, "other"),
        lambda: vhost.declare_queue(queue("q"), True, "other"),
        lambda: vhost.delete_queue("q", False, False, "other"),
        lambda: vhost.bind(binding("amq.direct", "q"), "other"),
    ]
    for attempt in attempts:
        with pytest.raises(SoftError) as refused:
            await attempt()
        assert said(refused) == (405, LOCKED)
    with pytest.raises(SoftError) as refused:
        vhost.lookup_queue("q", "other")
    assert said(refused) == (405, LOCKED)


async def test_exclusive_must_be_said_again_and_never_first_later(vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q", owner="c", durable=False), False, "c")
    await vhost.declare_queue(queue("plain", durable=False), False, "c")
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(queue("q", durable=False), False, "c")
    assert said(refused) == (405, LOCKED)
    with pytest.raises(SoftError) as refused:
        await vhost.declare_queue(queue("plain", owner="c"), False, "c")
    assert said(refused) == (405, LOCKED.replace("'q'", "'plain'"))


async def test_exclusive_queues_end_with_their_connection(vhost: VirtualHost) -> None:
    for number in range(3):
        await vhost.declare_queue(queue(f"mine{number}", owner="c"), False, "c")
        await vhost.bind(binding("amq.topic", f"mine{number}", "#"), "c")
    await vhost.declare_queue(queue("theirs", owner="other"), False, "other")
    await vhost.declare_queue(queue("ours"), False, "c")
    await vhost.drop_exclusive("c")
    assert set(vhost.queues) == {"theirs", "ours"}
    assert len(vhost.bindings) == 0
    await vhost.drop_exclusive("c")
    await vhost.drop_exclusive("nobody")


async def test_a_deleted_queue_is_stopped(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    publish_to(made)
    told = []
    add_consumer(made).on_cancelled = told.append
    await vhost.delete_queue("q", False, False, "c")
    assert made.is_deleted
    assert len(told) == 1


async def test_consumers_of_a_deleted_queue_find_no_trace_of_it(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", auto_delete=True))
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("x", "q"), "c")
    seen = []
    add_consumer(made).on_cancelled = lambda _: seen.append(
        ("q" in vhost.queues, "x" in vhost.exchanges, len(vhost.bindings))
    )
    await vhost.delete_queue("q", False, False, "c")
    assert seen == [(False, False, 0)]


async def test_delete_counts_what_was_ready(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    for _ in range(4):
        publish_to(made)
    assert made.get() is not None
    assert await vhost.delete_queue("q", False, False, "c") == 3
    assert await vhost.delete_queue("q", False, False, "c") == 0


async def test_conditions_of_delete_emptiness_first(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    publish_to(made)
    consumer = add_consumer(made)
    with pytest.raises(SoftError) as refused:
        await vhost.delete_queue("q", True, False, "c")
    assert said(refused) == (406, "queue 'q' in vhost '/' in use")
    made.requeued([*consumer.deliveries.unacked.values()])
    made.remove_consumer(consumer)
    publish_to(made)
    add_consumer(made).deliveries.output.is_congested = True
    publish_to(made)
    assert made.message_count
    with pytest.raises(SoftError) as refused:
        await vhost.delete_queue("q", True, True, "c")
    assert said(refused) == (406, "queue 'q' in vhost '/' not empty")
    assert vhost.lookup_queue("q", "c") is made


async def test_an_auto_delete_queue_goes_when_told_that_it_is_unused(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    made = await vhost.declare_queue(queue("q", auto_delete=True), False, "c")
    made.remove_consumer(add_consumer(made))
    assert world.host.unused_queues == [made]
    await vhost.queue_unused(made)
    assert "q" not in vhost.queues


async def test_an_unused_queue_stays_if_it_got_a_consumer_meanwhile(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q", auto_delete=True), False, "c")
    add_consumer(made)
    await vhost.queue_unused(made)
    assert vhost.queues["q"] is made


async def test_news_of_a_queue_long_gone_does_not_hurt_its_successor(vhost: VirtualHost) -> None:
    old = await vhost.declare_queue(queue("q", auto_delete=True), False, "c")
    await vhost.delete_queue("q", False, False, "c")
    new = await vhost.declare_queue(queue("q", auto_delete=True), False, "c")
    await vhost.queue_unused(old)
    await vhost.queue_expired(old)
    assert vhost.queues["q"] is new


async def test_a_queue_expires_unless_it_is_declared_again_in_time(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    made = await vhost.declare_queue(queue("q", {"x-expires": 1000}), False, "c")
    clock = world.host.clock
    for passive in (False, True):
        clock.advance(900)
        await vhost.declare_queue(queue("q", {"x-expires": 1000}), passive, "c")
    clock.advance(900)
    assert world.host.expired_queues == []
    clock.advance(100)
    assert world.host.expired_queues == [made]
    await vhost.queue_expired(made)
    assert "q" not in vhost.queues


async def test_the_limit_of_queues_holds_also_for_those_on_their_way(
    world: BrokerWorld, vhost: VirtualHost
) -> None:
    await world.broker.admin.set_vhost_limits("/", {"max-queues": 2})
    first = vhost.declare_queue(queue("a"), False, "c")
    second = vhost.declare_queue(queue("b"), False, "c")
    third = vhost.declare_queue(queue("c"), False, "c")
    results = await asyncio.gather(first, second, third, return_exceptions=True)
    refused = [result for result in results if isinstance(result, SoftError)]
    assert len(vhost.queues) == 2
    assert [error.explanation for error in refused] == [
        "cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
    ]
    await vhost.declare_queue(queue("a"), False, "c")
    await vhost.delete_queue("a", False, False, "c")
    await vhost.declare_queue(queue("c"), False, "c")
