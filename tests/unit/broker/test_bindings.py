"""Binding and unbinding; the texts were recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from topology_samples import binding, exchange, queue, to_exchange
from warren.broker.vhost import VirtualHost
from warren.model.errors import AmqpError, SoftError

DEFAULT_REFUSED = "operation not permitted on the default exchange"


def said(caught: pytest.ExceptionInfo[AmqpError]) -> tuple[int, str]:
    return caught.value.code, caught.value.explanation


async def test_a_bound_queue_is_routed_to_until_it_is_unbound(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.bind(binding("amq.topic", "q", "a.*"), "c")
    assert vhost.route("amq.topic", ["a.b"], None) == (made,)
    await vhost.unbind(binding("amq.topic", "q", "a.*"), "c")
    assert vhost.route("amq.topic", ["a.b"], None) == ()


async def test_binding_twice_is_binding_once(vhost: VirtualHost) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    for arguments in ({"b": 1, "a": 2}, {"a": 2, "b": 1}):
        await vhost.bind(binding("amq.direct", "q", "k", arguments), "c")
    assert len(vhost.bindings) == 1
    await vhost.unbind(binding("amq.direct", "q", "k", {"b": 1, "a": 2}), "c")
    assert len(vhost.bindings) == 0


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        (binding("none", "q"), "exchange 'none'"),
        (binding("amq.direct", "none"), "queue 'none'"),
        (binding("amq.direct", to_exchange("none")), "exchange 'none'"),
        (binding("none", "missing too"), "exchange 'none'"),
    ],
)
async def test_both_ends_must_exist_and_the_source_is_named_first(
    vhost: VirtualHost, wanted: object, missing: str
) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    with pytest.raises(SoftError) as refused:
        await vhost.bind(wanted, "c")
    assert said(refused) == (404, f"no {missing} in vhost '/'")


@pytest.mark.parametrize(
    "wanted",
    [
        binding("", "q", "k"),
        binding("", "none", "k"),
        binding("", to_exchange("amq.direct")),
        binding("amq.direct", to_exchange("")),
    ],
)
async def test_the_default_exchange_has_no_part_in_bindings(
    vhost: VirtualHost, wanted: object
) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    for action in (vhost.bind, vhost.unbind):
        with pytest.raises(SoftError) as refused:
            await action(wanted, "c")
        assert said(refused) == (403, DEFAULT_REFUSED)


@pytest.mark.parametrize(
    "wanted",
    [
        binding("amq.direct", "q", "never bound"),
        binding("none", "q", "k"),
        binding("amq.direct", "none", "k"),
        binding("amq.direct", to_exchange("none"), "k"),
    ],
)
async def test_unbinding_what_is_not_bound_is_no_mistake(
    vhost: VirtualHost, wanted: object
) -> None:
    await vhost.declare_queue(queue("q"), False, "c")
    await vhost.unbind(wanted, "c")


async def test_a_bad_x_match_is_refused_before_exclusivity_is_looked_at(
    vhost: VirtualHost,
) -> None:
    await vhost.declare_queue(queue("q", owner="c"), False, "c")
    with pytest.raises(SoftError) as refused:
        await vhost.bind(binding("amq.headers", "q", "", {"x-match": 1}), "other")
    text = "Invalid x-match field type signedint (value 1); expected longstr"
    assert said(refused) == (406, text)
    assert len(vhost.bindings) == 0


async def test_others_may_not_unbind_an_exclusive_queue_if_it_is_bound(
    vhost: VirtualHost,
) -> None:
    await vhost.declare_queue(queue("q", owner="c"), False, "c")
    await vhost.unbind(binding("amq.direct", "q"), "other")
    await vhost.bind(binding("amq.direct", "q"), "c")
    with pytest.raises(SoftError) as refused:
        await vhost.unbind(binding("amq.direct", "q"), "other")
    assert refused.value.code == 405
    assert len(vhost.bindings) == 1


async def test_exchanges_are_bound_to_exchanges(vhost: VirtualHost) -> None:
    made = await vhost.declare_queue(queue("q"), False, "c")
    await vhost.declare_exchange(exchange("x", "fanout"))
    await vhost.bind(binding("x", "q"), "c")
    await vhost.bind(binding("amq.topic", to_exchange("x"), "a.#"), "c")
    assert vhost.route("amq.topic", ["a.b"], None) == (made,)
    await vhost.unbind(binding("amq.topic", to_exchange("x"), "a.#"), "c")
    assert vhost.route("amq.topic", ["a.b"], None) == ()


async def test_an_exchange_may_be_bound_to_itself(vhost: VirtualHost) -> None:
    await vhost.bind(binding("amq.fanout", to_exchange("amq.fanout")), "c")
    assert vhost.route("amq.fanout", ["k"], None) == ()
