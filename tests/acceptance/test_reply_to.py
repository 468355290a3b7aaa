"""Direct reply-to: answers without a queue."""

from __future__ import annotations

import re

from acceptance.raw_client import RawClient, encode_properties
from live_broker import ConnectRaw, Names

REPLY_TO = "amq.rabbitmq.reply-to"


def ask(client: RawClient, queue: str, body: bytes) -> None:
    properties = encode_properties(reply_to=REPLY_TO, correlation_id="c-1")
    client.publish(1, body, properties, routing_key=queue)


def ready_to_ask(raw: ConnectRaw, names: Names) -> tuple[RawClient, str]:
    """A client that consumes direct replies, and a queue for its questions."""
    client, queue = raw(), names("questions")
    client.call(1, "queue.declare", queue=queue)
    client.call(1, "basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="replies")
    return client, queue


def answer_address(replier: RawClient, queue: str) -> str:
    """Where the answer to the next question is to go."""
    replier.call(1, "basic.consume", queue=queue, no_ack=True)
    question = replier.expect_content(1, "basic.deliver")
    address = question.properties["reply_to"]
    assert isinstance(address, str)
    return address


def test_an_answer_finds_its_way_without_a_queue(raw: ConnectRaw, names: Names) -> None:
    """T146: the replier sees a name of its own for the asker and publishes to it."""
    asker, queue = ready_to_ask(raw, names)
    replier = raw()
    ask(asker, queue, b"question")
    address = answer_address(replier, queue)
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\.[\w+/]+={0,2}\.[\w+/]{22}==", address)
    replier.publish(1, b"answer", encode_properties(correlation_id="c-1"), routing_key=address)
    answer = asker.expect_content(1, "basic.deliver")
    assert (answer.body, answer.properties["correlation_id"]) == (b"answer", "c-1")
    assert (answer.method.consumer_tag, answer.method.exchange) == ("replies", "")


def test_only_one_reply_consumer(raw: ConnectRaw, names: Names) -> None:
    """T146: the second is a 406."""
    client, _ = ready_to_ask(raw, names)
    client.send(1, "basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="second")
    text = client.expect_channel_close(1, 406).reply_text
    assert text == "PRECONDITION_FAILED - reply consumer already set"


def test_a_reply_consumer_cannot_acknowledge(raw: ConnectRaw) -> None:
    """T146: without no-ack it is a 406."""
    client = raw()
    client.send(1, "basic.consume", queue=REPLY_TO, no_ack=False)
    text = client.expect_channel_close(1, 406).reply_text
    assert text == "PRECONDITION_FAILED - reply consumer cannot acknowledge"


def test_asking_needs_a_reply_consumer(raw: ConnectRaw, names: Names) -> None:
    """T147: reply-to without the consumer is a 406."""
    client, queue = raw(), names("questions")
    client.call(1, "queue.declare", queue=queue)
    ask(client, queue, b"question")
    text = client.expect_channel_close(1, 406).reply_text
    assert text == "PRECONDITION_FAILED - fast reply consumer does not exist"


def test_a_replier_can_ask_whether_the_asker_lives(raw: ConnectRaw, names: Names) -> None:
    """T146: a declare of the address says 1 consumer, or 404 when the asker is gone."""
    asker, queue = ready_to_ask(raw, names)
    replier = raw()
    ask(asker, queue, b"question")
    address = answer_address(replier, queue)
    found = replier.call(1, "queue.declare", queue=address, passive=True)
    assert (found.message_count, found.consumer_count) == (0, 1)
    asker.call(1, "channel.close", reply_code=200)
    replier.send(1, "queue.declare", queue=address, passive=True)
    replier.expect_channel_close(1, 404)


def test_an_answer_to_nobody_is_returned(raw: ConnectRaw, names: Names) -> None:
    """T146: mandatory to an asker that is gone comes back as NO_ROUTE, and nothing breaks."""
    asker, queue = ready_to_ask(raw, names)
    replier = raw()
    ask(asker, queue, b"question")
    address = answer_address(replier, queue)
    asker.call(1, "channel.close", reply_code=200)
    replier.publish(1, b"answer", routing_key=address, mandatory=True)
    assert replier.expect_content(1, "basic.return").method.reply_code == 312


def test_a_mandatory_answer_comes_and_is_returned_too(raw: ConnectRaw, names: Names) -> None:
    """T146: to `mandatory` the address is no queue, whether the asker lives or not."""
    asker, queue = ready_to_ask(raw, names)
    replier = raw()
    ask(asker, queue, b"question")
    address = answer_address(replier, queue)
    replier.publish(1, b"answer", routing_key=address, mandatory=True)
    assert replier.expect_content(1, "basic.return").method.reply_code == 312
    assert asker.expect_content(1, "basic.deliver").body == b"answer"


def test_a_cancelled_reply_consumer_can_be_set_again(raw: ConnectRaw, names: Names) -> None:
    """T146: cancel frees the place."""
    client, queue = ready_to_ask(raw, names)
    client.call(1, "basic.cancel", consumer_tag="replies")
    client.call(1, "basic.consume", queue=REPLY_TO, no_ack=True, consumer_tag="again")
    ask(client, queue, b"question")
    question = client.get(1, queue)
    assert question is not None
    client.publish(1, b"to myself", routing_key=question.properties["reply_to"])
    answer = client.expect_content(1, "basic.deliver")
    assert (answer.method.consumer_tag, answer.body) == ("again", b"to myself")
