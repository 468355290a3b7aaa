"""Declaring, binding and deleting exchanges of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import (
    channel_error,
    connection_error,
    drain,
    exchange_is_there,
)
from live_broker import Connect, Names


def bound_queue(channel: BlockingChannel, queue: str, exchange: str, *keys: str) -> str:
    channel.queue_declare(queue)
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return queue


def test_an_unknown_type_ends_the_connection(channel: BlockingChannel, names: Names) -> None:
    """T055: 503 that names the type."""
    with connection_error(503) as refusal:
        channel.exchange_declare(names("exchange"), "no-such-type")
    assert refusal.text == "COMMAND_INVALID - unknown exchange type 'no-such-type'"


def test_the_type_cannot_be_changed(channel: BlockingChannel, names: Names) -> None:
    """T056: direct, then fanout: 406 inequivalent arg 'type'."""
    exchange = names("exchange")
    channel.exchange_declare(exchange, "direct")
    with channel_error(406) as refusal:
        channel.exchange_declare(exchange, "fanout")
    assert refusal.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )


def test_an_exchange_may_be_declared_again(channel: BlockingChannel, names: Names) -> None:
    """T056: the same again is fine, and so is looking."""
    exchange = names("exchange")
    for passive in (False, False, True):
        channel.exchange_declare(exchange, "topic", passive=passive)
    assert exchange_is_there(channel.connection, exchange)


Operation = Callable[[BlockingChannel, str], Any]


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param(lambda c, q: c.exchange_declare("", "direct"), id="declare"),
        pytest.param(lambda c, q: c.exchange_delete(""), id="delete"),
        pytest.param(lambda c, q: c.queue_bind(q, "", "key"), id="bind"),
        pytest.param(lambda c, q: c.queue_unbind(q, "", "key"), id="unbind"),
    ],
)
def test_the_default_exchange_is_not_to_be_touched(
    channel: BlockingChannel, names: Names, operation: Operation
) -> None:
    """T057: declare, delete, bind and unbind: 403."""
    queue = names("queue")
    channel.queue_declare(queue)
    with channel_error(403) as refusal:
        operation(channel, queue)
    assert refusal.text == "ACCESS_REFUSED - operation not permitted on the default exchange"


@pytest.mark.parametrize(
    "exchange", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"]
)
def test_predeclared_exchanges_stay(channel: BlockingChannel, exchange: str) -> None:
    """T058: they are there and cannot be deleted."""
    channel.exchange_declare(exchange, passive=True)
    with channel_error(403) as refusal:
        channel.exchange_delete(exchange)
    assert refusal.text == (
        f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost '/' not allowed"
    )


def test_the_prefix_amq_is_reserved(channel: BlockingChannel) -> None:
    """T042: a client may not create amq.something."""
    with channel_error(403) as refusal:
        channel.exchange_declare("amq.mine")
    assert refusal.text == (
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    )


def test_if_unused_protects_bindings(channel: BlockingChannel, names: Names) -> None:
    """T059: an exchange with a binding is not deleted with if-unused."""
    exchange = names("exchange")
    channel.exchange_declare(exchange)
    bound_queue(channel, names("queue"), exchange, "key")
    with channel_error(406) as refusal:
        channel.exchange_delete(exchange, if_unused=True)
    assert refusal.text == f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"


def test_deleting_nothing_is_fine(channel: BlockingChannel, names: Names) -> None:
    """T053: exchange.delete of a missing exchange is answered with delete-ok."""
    assert channel.exchange_delete(names("missing"))


@pytest.mark.parametrize("how", ["unbind", "delete-queue"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, names: Names, how: str
) -> None:
    """T060: unbinding the last queue, or deleting it, removes the exchange."""
    exchange = names("exchange")
    channel.exchange_declare(exchange, auto_delete=True)
    queue = bound_queue(channel, names("queue"), exchange, "a", "b")
    channel.queue_unbind(queue, exchange, "a")
    assert exchange_is_there(channel.connection, exchange)
    if how == "unbind":
        channel.queue_unbind(queue, exchange, "b")
    else:
        channel.queue_delete(queue)
    assert not exchange_is_there(channel.connection, exchange)


def test_an_auto_delete_exchange_never_bound_stays(channel: BlockingChannel, names: Names) -> None:
    """T060: like a queue that never had a consumer."""
    exchange = names("exchange")
    channel.exchange_declare(exchange, auto_delete=True)
    assert exchange_is_there(channel.connection, exchange)


def test_clients_cannot_publish_to_an_internal_exchange(connect: Connect, names: Names) -> None:
    """T061: 403 for a publish, but another exchange may feed it."""
    internal, outer, connection = names("internal"), names("outer"), connect()
    channel = connection.channel()
    channel.exchange_declare(internal, "fanout", internal=True)
    channel.exchange_declare(outer, "fanout")
    channel.exchange_bind(internal, outer)
    queue = bound_queue(channel, names("queue"), internal, "")
    channel.basic_publish(outer, "", b"by the front door")
    assert drain(channel, queue) == [b"by the front door"]
    channel.basic_publish(internal, "", b"by the back door")
    with channel_error(403) as refusal:
        channel.queue_declare(queue, passive=True)
    assert refusal.text == (
        f"ACCESS_REFUSED - cannot publish to internal exchange '{internal}' in vhost '/'"
    )


def test_binding_twice_delivers_once(channel: BlockingChannel, names: Names) -> None:
    """T062: a duplicate binding is no second binding; one unbind removes it."""
    exchange = names("exchange")
    channel.exchange_declare(exchange)
    queue = bound_queue(channel, names("queue"), exchange, "key", "key")
    channel.basic_publish(exchange, "key", b"once")
    assert drain(channel, queue) == [b"once"]
    channel.queue_unbind(queue, exchange, "key")
    channel.basic_publish(exchange, "key", b"never")
    assert drain(channel, queue) == []


def test_unbinding_what_is_not_bound_is_fine(channel: BlockingChannel, names: Names) -> None:
    """T063: the binding, the queue or the exchange may be missing."""
    exchange, queue = names("exchange"), names("queue")
    channel.exchange_declare(exchange)
    channel.queue_declare(queue)
    assert channel.queue_unbind(queue, exchange, "key")
    assert channel.queue_unbind(names("missing-queue"), exchange, "key")
    assert channel.queue_unbind(queue, names("missing-exchange"), "key")
    assert channel.exchange_unbind(names("missing-1"), names("missing-2"), "key")


def test_binding_a_missing_queue_is_not_found(channel: BlockingChannel, names: Names) -> None:
    """T064: 404 names the queue."""
    queue = names("missing")
    with channel_error(404) as refusal:
        channel.queue_bind(queue, "amq.direct", "key")
    assert refusal.text == f"NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_binding_to_a_missing_exchange_is_not_found(channel: BlockingChannel, names: Names) -> None:
    """T064: 404 names the exchange."""
    exchange, queue = names("missing"), names("queue")
    channel.queue_declare(queue)
    with channel_error(404) as refusal:
        channel.queue_bind(queue, exchange, "key")
    assert refusal.text == f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"


def test_an_exchange_delete_removes_its_bindings(channel: BlockingChannel, names: Names) -> None:
    """T062: declared again, the exchange starts without bindings."""
    exchange = names("exchange")
    channel.exchange_declare(exchange)
    queue = bound_queue(channel, names("queue"), exchange, "key")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange)
    channel.basic_publish(exchange, "key", b"lost")
    assert drain(channel, queue) == []


def test_exchanges_in_a_circle_deliver_once(channel: BlockingChannel, names: Names) -> None:
    """T073: A to B to A with a queue on both: one copy, and it ends."""
    first, second = names("first"), names("second")
    for exchange in (first, second):
        channel.exchange_declare(exchange, "fanout")
    channel.exchange_bind(second, first)
    channel.exchange_bind(first, second)
    queue = bound_queue(channel, names("queue"), first, "")
    channel.queue_bind(queue, second, "")
    channel.basic_publish(first, "", b"round")
    assert drain(channel, queue) == [b"round"]


def test_an_alternate_exchange_takes_what_is_unroutable(connect: Connect, names: Names) -> None:
    """T074: and a mandatory message that went there is not returned."""
    exchange, alternate = names("exchange"), names("alternate")
    channel = connect().channel()
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": alternate})
    queue = bound_queue(channel, names("queue"), alternate, "")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "unknown", b"saved", mandatory=True)
    assert drain(channel, queue) == [b"saved"]


def test_alternate_exchanges_in_a_circle_give_up(connect: Connect, names: Names) -> None:
    """T075: X falls back to Y and Y to X: a mandatory message is returned."""
    first, second = names("first"), names("second")
    channel = connect().channel()
    channel.exchange_declare(first, arguments={"alternate-exchange": second})
    channel.exchange_declare(second, arguments={"alternate-exchange": first})
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(first, "unknown", b"back", mandatory=True)
