"""What happens to a publish: returned, refused, or passed on unchanged."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, get
from acceptance.raw_client import encode_properties
from live_broker import ConnectRaw, Names


def test_an_unroutable_mandatory_message_is_returned(raw: ConnectRaw) -> None:
    """T079: 312 NO_ROUTE with the exchange, the key, the properties and the body."""
    client = raw()
    properties = encode_properties(message_id="m-1")
    client.publish(1, b"back", properties, exchange="amq.direct", routing_key="no", mandatory=True)
    returned = client.expect_content(1, "basic.return")
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", "no")
    assert (returned.body, returned.property_block) == (b"back", properties)


def test_an_unroutable_message_nobody_insists_on_is_dropped(raw: ConnectRaw) -> None:
    """T079: without mandatory nothing comes back."""
    client = raw()
    client.publish(1, b"gone", exchange="amq.direct", routing_key="nobody")
    client.expect_silence()


def test_a_routed_mandatory_message_is_not_returned(raw: ConnectRaw, names: Names) -> None:
    """T079: it went where it should."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, b"there", routing_key=queue, mandatory=True)
    message = client.get(1, queue)
    assert message is not None
    assert message.body == b"there"
    client.expect_silence()


def test_immediate_is_not_implemented(raw: ConnectRaw) -> None:
    """T080: 540 ends the connection."""
    client = raw()
    client.publish(1, b"now", routing_key="queue", immediate=True)
    assert client.expect_connection_close(540).reply_text == "NOT_IMPLEMENTED - immediate=true"


def test_publishing_to_a_missing_exchange_closes_the_channel(raw: ConnectRaw, names: Names) -> None:
    """T081: 404 that blames basic.publish."""
    client, exchange = raw(), names("missing")
    client.publish(1, b"where", exchange=exchange, routing_key="key")
    close = client.expect_channel_close(1, 404)
    assert close.reply_text == f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    assert (close.class_id, close.method_id) == (60, 40)


def test_properties_and_body_arrive_unchanged(channel: BlockingChannel, names: Names) -> None:
    """T033: all fourteen properties, as pika knows them."""
    queue = names("queue")
    channel.queue_declare(queue)
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="gzip", headers={"a": [1, {"b": b"c"}]},
        delivery_mode=1, priority=7, correlation_id="c", reply_to="r", expiration="60000",
        message_id="m", timestamp=1700000000, type="t", user_id="guest", app_id="app",
        cluster_id="cluster",
    )  # fmt: skip
    channel.basic_publish("", queue, b"\x00\xce\xff", properties)
    message = get(channel, queue)
    assert message is not None
    assert (message.properties, message.body) == (properties, b"\x00\xce\xff")


def test_the_user_id_may_be_ones_own(channel: BlockingChannel, names: Names) -> None:
    """T148: user-id equal to the login passes."""
    queue = names("queue")
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="guest"))
    message = get(channel, queue)
    assert message is not None
    assert message.properties.user_id == "guest"


def test_the_user_id_may_not_be_anothers(channel: BlockingChannel, names: Names) -> None:
    """T148: any other is a 406 that names both."""
    queue = names("queue")
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="somebody"))
    with channel_error(406) as refusal:
        channel.queue_declare(queue, passive=True)
    assert refusal.text == (
        "PRECONDITION_FAILED - user_id property set to 'somebody' "
        "but authenticated user was 'guest'"
    )


@pytest.mark.parametrize("no_ack", [False, True])
def test_delivery_tags_count_every_delivery(raw: ConnectRaw, names: Names, no_ack: bool) -> None:
    """T093: tags are per channel, from 1, for gets and deliveries alike."""
    client, queue = raw(), names("queue")
    client.call(1, "queue.declare", queue=queue)
    tags = []
    for _ in range(2):
        client.publish(1, b"", routing_key=queue)
        message = client.get(1, queue, no_ack)
        assert message is not None
        tags.append(message.method.delivery_tag)
    client.call(1, "basic.consume", queue=queue, no_ack=no_ack)
    client.publish(1, b"", routing_key=queue)
    tags.append(client.expect_content(1, "basic.deliver").method.delivery_tag)
    assert tags == [1, 2, 3]
