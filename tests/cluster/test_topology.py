"""Topology is one: what one node has answered with ok holds at all of them, at once."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.conftest import OpenOn
from cluster.nodes import ClusterOfNodes, body_of, count_of, eventually, publish


def test_a_queue_declared_on_one_node_is_there_on_all_others_at_once(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    for i in range(20):
        first.queue_declare(f"{name}-{i}", durable=True)
        for other in (second, third):
            assert other.queue_declare(f"{name}-{i}", passive=True).method.message_count == 0


def test_declaring_it_again_elsewhere_is_fine_and_otherwise_is_refused(
    first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    first.queue_declare(name, durable=True)
    second.queue_declare(name, durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        second.queue_declare(name, durable=False)
    assert refused.value.reply_code == 406


def test_a_binding_made_on_one_node_routes_on_another_right_after_bind_ok(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    third.exchange_declare(name, "topic")
    first.queue_declare(name)
    for i in range(20):
        first.queue_bind(name, name, f"key.{i}")
        second.basic_publish(name, f"key.{i}", b"%d" % i, mandatory=True)
    assert count_of(third, name) == 20
    first.queue_unbind(name, name, "key.7")
    with pytest.raises(pika.exceptions.UnroutableError):
        second.basic_publish(name, "key.7", b"", mandatory=True)


def test_what_no_queue_anywhere_wants_is_returned(second: BlockingChannel, name: str) -> None:
    with pytest.raises(pika.exceptions.UnroutableError) as returned:
        publish(second, name, b"for nobody")
    (message,) = returned.value.messages
    assert (message.method.reply_code, message.body) == (312, b"for nobody")


def test_an_exclusive_queue_is_locked_from_other_nodes_and_goes_with_its_connection(
    cluster: ClusterOfNodes, first: BlockingChannel, open_on: OpenOn, name: str
) -> None:
    first.queue_declare(name, exclusive=True)
    for attempt in ("queue_declare", "basic_get", "queue_purge", "queue_delete"):
        options = {"passive": True} if attempt == "queue_declare" else {}
        channel = open_on(cluster.nodes[1])
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            getattr(channel, attempt)(name, **options)
        assert refused.value.reply_code == 405
        assert "cannot obtain exclusive access to locked queue" in refused.value.reply_text
    publish(open_on(cluster.nodes[2], confirms=True), name, b"publishing is open to all")
    assert body_of(first, name) == b"publishing is open to all"
    first.connection.close()
    eventually(lambda: _is_gone(open_on(cluster.nodes[1]), name), "the exclusive queue is gone")


def test_an_auto_delete_queue_goes_when_its_last_consumer_elsewhere_is_cancelled(
    cluster: ClusterOfNodes, first: BlockingChannel, open_on: OpenOn, name: str
) -> None:
    first.queue_declare(name, auto_delete=True)
    consumers = [open_on(cluster.nodes[1]), open_on(cluster.nodes[2])]
    tags = [consumer.basic_consume(name, lambda *_: None) for consumer in consumers]
    consumers[0].basic_cancel(tags[0])
    assert count_of(first, name) == 0, "somebody still consumes from it"
    consumers[1].basic_cancel(tags[1])
    eventually(lambda: _is_gone(open_on(cluster.nodes[0]), name), "the queue is gone")


def test_an_auto_delete_queue_goes_when_its_last_consumer_elsewhere_loses_its_connection(
    cluster: ClusterOfNodes, first: BlockingChannel, open_on: OpenOn, name: str
) -> None:
    first.queue_declare(name, auto_delete=True)
    consumer = open_on(cluster.nodes[1])
    consumer.basic_consume(name, lambda *_: None)
    consumer.connection.close()
    eventually(lambda: _is_gone(open_on(cluster.nodes[2]), name), "the queue is gone")


def test_a_queue_is_purged_and_deleted_from_another_node(
    cluster: ClusterOfNodes, first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    for _ in range(3):
        publish(second, name, b"m")
    assert second.queue_purge(name).method.message_count == 3
    publish(second, name, b"m")
    assert second.queue_delete(name).method.message_count == 1
    assert _is_gone(first, name)
    assert second.queue_delete(name).method.message_count == 0, "deleting nothing is fine"


def test_a_queue_is_not_deleted_from_another_node_while_it_has_messages_or_consumers(
    cluster: ClusterOfNodes, first: BlockingChannel, second: BlockingChannel, open_on: OpenOn,
    name: str,
) -> None:  # fmt: skip
    first.queue_declare(name)
    publish(second, name, b"m")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        open_on(cluster.nodes[2]).queue_delete(name, if_empty=True)
    text = f"PRECONDITION_FAILED - queue '{name}' in vhost '/' "
    assert refused.value.reply_text == text + "not empty"
    first.basic_consume(name, lambda *_: None)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        open_on(cluster.nodes[2]).queue_delete(name, if_unused=True)
    assert refused.value.reply_text == text + "in use"


def test_a_queue_deleted_and_declared_again_elsewhere_is_another_one(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    for home in (first, third, first):
        home.queue_declare(name)
        publish(second, name, b"m")
        assert count_of(second, name) == 1
        second.queue_delete(name)


def _is_gone(channel: BlockingChannel, name: str) -> bool:
    try:
        channel.queue_declare(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker as refused:
        return bool(refused.reply_code == 404)
    return False
