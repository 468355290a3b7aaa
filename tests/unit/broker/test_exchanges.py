"""exchange.declare and exchange.delete; the texts were recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange, queue, to_exchange
from warren.broker.vhost import VirtualHost
from warren.model.errors import AmqpError, HardError, SoftError

DEFAULT_REFUSED = "operation not permitted on the default exchange"


def said(caught: pytest.ExceptionInfo[AmqpError]) -> tuple[int, str]:
    return caught.value.code, caught.value.explanation


async def test_the_default_vhost_has_the_predeclared_exchanges_and_that_of_events(
    vhost: VirtualHost,
) -> None:
    found = {name: made.record.type for name, made in vhost.exchanges.items()}
    assert found == {
        "": "direct",
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.rabbitmq.event": "topic",
        "amq.rabbitmq.trace": "topic",
        "amq.topic": "topic",
    }
    assert all(made.record.durable for made in vhost.exchanges.values())
    assert [n for n, made in vhost.exchanges.items() if made.record.internal] == [
        "amq.rabbitmq.trace",
        "amq.rabbitmq.event",
    ]


async def test_declaring_twice_alike_gives_the_same_exchange(vhost: VirtualHost) -> None:
    first = await vhost.declare_exchange(exchange("x", "topic"))
    assert await vhost.declare_exchange(exchange("x", "topic")) is first


async def test_an_unknown_type_is_refused_before_all_else(vhost: VirtualHost) -> None:
    for name in ("x", "", "amq.direct", "amq.new"):
        with pytest.raises(HardError) as refused:
            await vhost.declare_exchange(exchange(name, "nosuch"))
        assert said(refused) == (503, "unknown exchange type 'nosuch'")


async def test_a_passive_declare_looks_only_at_the_name(vhost: VirtualHost) -> None:
    for type_ in ("direct", "nosuch"):
        found = await vhost.declare_exchange(exchange("amq.topic", type_), passive=True)
        assert found.record.type == "topic"


@pytest.mark.parametrize("name", ["x", "amq.missing"])
async def test_a_passive_declare_of_what_is_missing_finds_nothing(
    vhost: VirtualHost, name: str
) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(exchange(name), passive=True)
    assert said(refused) == (404, f"no exchange '{name}' in vhost '/'")


@pytest.mark.parametrize("passive", [True, False])
async def test_the_default_exchange_cannot_be_declared(vhost: VirtualHost, passive: bool) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(exchange(""), passive=passive)
    assert said(refused) == (403, DEFAULT_REFUSED)


async def test_reserved_names_are_for_the_broker(vhost: VirtualHost) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(exchange("amq.mine"))
    assert said(refused) == (403, "exchange name 'amq.mine' contains reserved prefix 'amq.*'")


async def test_a_predeclared_exchange_may_be_declared_as_it_is(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("amq.direct"))
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(exchange("amq.direct", durable=False))
    assert said(refused) == (
        406,
        (
            "inequivalent arg 'durable' for exchange 'amq.direct' in vhost '/': "
            "received 'false' but current is 'true'"
        ),
    )


@pytest.mark.parametrize(
    ("again", "text"),
    [
        (exchange("x", "fanout"), "'type' {}: received 'fanout' but current is 'direct'"),
        (exchange("x", durable=False), "'durable' {}: received 'false' but current is 'true'"),
        (
            exchange("x", auto_delete=True),
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (exchange("x", internal=True), "'internal' {}: received 'true' but current is 'false'"),
        (
            exchange("x", arguments={"alternate-exchange": "a"}),
            "'alternate-exchange' {}: received the value 'a' of type 'longstr' but current is none",
        ),
    ],
)
async def test_declaring_otherwise_is_refused(vhost: VirtualHost, again: object, text: str) -> None:
    await vhost.declare_exchange(exchange("x"))
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(again)
    expected = "inequivalent arg " + text.format("for exchange 'x' in vhost '/'")
    assert said(refused) == (406, expected)


async def test_other_arguments_may_differ(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x", arguments={"x-foo": "a"}))
    await vhost.declare_exchange(exchange("x", arguments={"x-foo": "b"}))


async def test_an_alternate_exchange_is_named_by_a_longstr(vhost: VirtualHost) -> None:
    with pytest.raises(SoftError) as refused:
        await vhost.declare_exchange(exchange("x", arguments={"alternate-exchange": 5}))
    assert said(refused) == (
        406,
        "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    )
    assert "x" not in vhost.exchanges


async def test_an_alternate_exchange_need_not_exist(vhost: VirtualHost) -> None:
    made = await vhost.declare_exchange(exchange("x", arguments={"alternate-exchange": "none"}))
    assert made.alternate == "none"


async def test_deleting_what_is_missing_is_no_mistake(vhost: VirtualHost) -> None:
    await vhost.delete_exchange("none", if_unused=True)


async def test_system_exchanges_cannot_be_deleted_not_even_missing_ones(
    vhost: VirtualHost,
) -> None:
    for name in ("amq.direct", "amq.none"):
        with pytest.raises(SoftError) as refused:
            await vhost.delete_exchange(name)
        text = f"deletion of system exchange '{name}' in vhost '/' not allowed"
        assert said(refused) == (403, text)
    with pytest.raises(SoftError) as refused:
        await vhost.delete_exchange("")
    assert said(refused) == (403, DEFAULT_REFUSED)


async def test_if_unused_minds_outgoing_bindings_only(vhost: VirtualHost) -> None:
    await vhost.declare_exchange(exchange("x"))
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("amq.topic", to_exchange("x")), "c")
    await vhost.bind(binding("x", "q", "k"), "c")
    with pytest.raises(SoftError) as refused:
        await vhost.delete_exchange("x", if_unused=True)
    assert said(refused) == (406, "exchange 'x' in vhost '/' in use")
    await vhost.unbind(binding("x", "q", "k"), "c")
    await vhost.delete_exchange("x", if_unused=True)
    assert "x" not in vhost.exchanges
    assert len(vhost.bindings) == 0


async def test_lookups_find_what_is_there(vhost: VirtualHost) -> None:
    assert vhost.lookup_exchange("").record.name == ""
    with pytest.raises(SoftError) as refused:
        vhost.lookup_exchange("none")
    assert said(refused) == (404, "no exchange 'none' in vhost '/'")
