"""Messages to and from a queue whose home is another node: as if it were here."""

from __future__ import annotations

import re

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from cluster.conftest import OpenOn
from cluster.nodes import ClusterOfNodes, body_of, count_of, eventually, publish

LARGE = bytes(range(256)) * 8_192  # two frames of a link and then some


def test_a_confirmed_publish_from_another_node_is_in_the_queue(
    first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    first.queue_declare(name, durable=True)
    for i in range(50):
        publish(second, name, b"%d" % i)
    assert count_of(first, name) == 50
    assert [body_of(first, name) for _ in range(50)] == [b"%d" % i for i in range(50)]


def test_properties_and_large_bodies_pass_unchanged_in_both_directions(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    headers = {"n": 1, "nested": {"list": [b"bytes", "text", True]}}
    properties = pika.BasicProperties(headers=headers, priority=3, message_id="id", type="t")
    second.basic_publish("", name, LARGE, properties)
    method, got, body = third.basic_get(name, auto_ack=True)
    assert body == LARGE
    assert (method.exchange, method.routing_key, method.redelivered) == ("", name, False)
    assert (got.headers, got.priority, got.message_id, got.type) == (headers, 3, "id", "t")


def test_get_from_another_node_says_how_many_are_left_and_when_there_are_none(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    assert third.basic_get(name) == (None, None, None)
    for body in (b"a", b"b"):
        publish(second, name, body)
    method, _, body = third.basic_get(name)
    assert (body, method.message_count) == (b"a", 1)
    third.basic_ack(method.delivery_tag)
    assert body_of(third, name) == b"b"
    assert third.basic_get(name) == (None, None, None)
    assert count_of(first, name) == 0


def test_what_a_client_elsewhere_got_and_did_not_ack_returns_with_its_channel(
    cluster: ClusterOfNodes, first: BlockingChannel, second: BlockingChannel, open_on: OpenOn,
    name: str,
) -> None:  # fmt: skip
    first.queue_declare(name)
    for body in (b"acked", b"got", b"never touched"):
        publish(second, name, body)
    reader = open_on(cluster.nodes[2])
    reader.basic_ack(reader.basic_get(name)[0].delivery_tag)
    assert body_of(reader, name, auto_ack=False) == b"got"
    assert count_of(first, name) == 1
    reader.connection.close()
    eventually(lambda: count_of(first, name) == 2, "it is back")
    method, _, body = first.basic_get(name)
    assert (body, method.redelivered) == (b"got", True), "back in its place"


def test_a_consumer_elsewhere_gets_all_in_order_and_its_acks_arrive(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    for i in range(1_500):  # more than a link's window of deliveries
        third.basic_publish("", name, b"%d" % i)
    seen: list[bytes] = []

    def on_message(channel: BlockingChannel, method: object, _: object, body: bytes) -> None:
        seen.append(body)
        channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    second.basic_consume(name, on_message)
    eventually(
        lambda: second.connection.process_data_events(0.05) or len(seen) == 1_500, "all is there"
    )
    assert seen == [b"%d" % i for i in range(1_500)]
    second.connection.close()
    assert count_of(first, name) == 0, "the acks have reached the queue, or they would be back"


def test_prefetch_holds_for_a_consumer_elsewhere(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    for _ in range(10):
        publish(second, name, b"m")
    tags: list[int] = []
    third.basic_qos(prefetch_count=3)
    third.basic_consume(name, lambda _c, method, _p, _b: tags.append(method.delivery_tag))
    eventually(lambda: third.connection.process_data_events(0.05) or len(tags) >= 3, "three")
    third.connection.process_data_events(0.2)
    assert len(tags) == 3
    assert count_of(first, name) == 7
    third.basic_ack(tags[1], multiple=True)
    eventually(lambda: third.connection.process_data_events(0.05) or len(tags) == 5, "two more")
    third.connection.process_data_events(0.2)
    assert len(tags) == 5


def test_nack_with_requeue_brings_it_back_to_its_place_for_anybody(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    for body in (b"1", b"2", b"3"):
        publish(second, name, body)
    tags = [third.basic_get(name)[0].delivery_tag for _ in range(3)]
    third.basic_nack(tags[1], multiple=True, requeue=True)
    eventually(lambda: count_of(first, name) == 2, "they are back")
    method, _, body = first.basic_get(name)
    assert (body, method.redelivered) == (b"1", True)
    third.basic_reject(tags[2], requeue=False)
    third.connection.close()
    assert count_of(second, name) == 1, "what was rejected is gone"


def test_what_is_rejected_elsewhere_dies_into_a_queue_of_a_third_node(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    dead = f"{name}-dead"
    third.queue_declare(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    first.queue_declare(name, arguments=arguments)
    publish(second, name, b"unwanted")
    second.basic_reject(second.basic_get(name)[0].delivery_tag, requeue=False)
    eventually(lambda: count_of(first, dead) == 1, "it is dead")
    _, properties, body = first.basic_get(dead, auto_ack=True)
    assert body == b"unwanted"
    (death,) = properties.headers["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (name, "rejected", 1)


def test_a_full_queue_elsewhere_nacks(
    first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    first.queue_declare(name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(second, name, b"fits")
    with pytest.raises(pika.exceptions.NackError):
        publish(second, name, b"does not")
    assert count_of(second, name) == 1


def test_one_publish_reaches_queues_of_all_nodes(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.exchange_declare(name, "fanout")
    for i, channel in enumerate((first, second, third)):
        channel.queue_declare(f"{name}-{i}")
        channel.queue_bind(f"{name}-{i}", name)
    for i in range(10):
        second.basic_publish(name, "", b"%d" % i)
    assert [count_of(first, f"{name}-{i}") for i in range(3)] == [10, 10, 10]


def test_a_transaction_publishes_and_acks_elsewhere_at_commit_only(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    publish(second, name, b"to be acked")
    third.tx_select()
    third.basic_ack(third.basic_get(name)[0].delivery_tag)
    third.basic_publish("", name, b"to be committed")
    assert count_of(first, name) == 0, "not before the commit"
    third.tx_commit()
    assert count_of(first, name) == 1
    third.basic_publish("", name, b"to be rolled back")
    third.tx_rollback()
    third.connection.close()
    assert body_of(first, name) == b"to be committed"
    assert count_of(first, name) == 0


def test_an_exclusive_consumer_keeps_out_those_of_other_nodes(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    second.basic_consume(name, lambda *_: None, exclusive=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        third.basic_consume(name, lambda *_: None)
    assert refused.value.reply_code == 403
    assert f"queue '{name}' in vhost '/' in exclusive use" in refused.value.reply_text


def test_a_consumer_elsewhere_is_told_when_its_queue_is_deleted(
    first: BlockingChannel, second: BlockingChannel, name: str
) -> None:
    first.queue_declare(name)
    cancelled: list[str] = []
    second.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = second.basic_consume(name, lambda *_: None)
    first.queue_delete(name)
    eventually(lambda: second.connection.process_data_events(0.05) or cancelled, "it is told")
    assert cancelled == [tag]


def test_a_request_is_answered_directly_across_nodes(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    third.queue_declare(name)
    answers: list[bytes] = []
    first.basic_consume(
        "amq.rabbitmq.reply-to", lambda _c, _m, _p, body: answers.append(body), auto_ack=True
    )
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    for i in range(10):
        first.basic_publish("", name, b"%d" % i, properties)
    for _ in range(10):
        _, request, body = eventually(
            lambda: (got := second.basic_get(name, auto_ack=True))[0] and got, "a request"
        )
        # The letters of RabbitMQ's addresses, whatever the node is called.
        assert re.fullmatch(r"amq\.rabbitmq\.reply-to\.[A-Za-z0-9_.+/=-]+", request.reply_to)
        second.basic_publish("", request.reply_to, b"answer to " + body)
    eventually(lambda: first.connection.process_data_events(0.05) or len(answers) == 10, "answers")
    assert answers == [b"answer to %d" % i for i in range(10)]


def test_a_mandatory_answer_to_a_requester_elsewhere_that_is_gone_is_returned(
    first: BlockingChannel, second: BlockingChannel, third: BlockingChannel, name: str
) -> None:
    third.queue_declare(name)
    first.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    first.basic_publish("", name, b"", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    address = eventually(lambda: third.basic_get(name, auto_ack=True)[1], "a request").reply_to
    first.connection.close()
    for gone in (address, f"{address}-which-is-no-node"):
        with pytest.raises(pika.exceptions.UnroutableError):
            second.basic_publish("", gone, b"too late", mandatory=True)
