"""Groups of consumers of a stream: one is served, and the next goes on where it left off."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import Inbox, channel_error, consume, eventually, settle
from acceptance.management_client import Api
from live_broker import Connect

pytestmark = pytest.mark.skipif("WARREN_TEST_BROKER" in os.environ, reason="Warren's own")

GROUP = {"x-single-active-consumer": True, "x-stream-group": "readers"}


@pytest.fixture
def stream(connect: Connect, vhost: str) -> str:
    channel = connect(virtual_host=vhost).channel()
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    fill(channel, 0, 10)
    return "s"


def fill(channel: BlockingChannel, first: int, end: int) -> None:
    channel.confirm_delivery()
    for number in range(first, end):
        channel.basic_publish("", "s", b"%d" % number)


def join(connect: Connect, vhost: str, offset: Any = "first", **arguments: Any) -> Inbox:
    channel = connect(virtual_host=vhost).channel()
    channel.basic_qos(prefetch_count=20)
    wanted = {**GROUP, "x-stream-offset": offset, **arguments}
    return consume(channel, "s", arguments=wanted)


def numbers(inbox: Inbox) -> list[int]:
    return [int(body) for body in inbox.bodies]


def cursor(api: Api, vhost: str, group: str = "readers") -> int | None:
    answer = api.get("warren", "streams", vhost, "s", "groups", group)
    return answer.body["offset"] if answer.status == 200 else None


def ack(inbox: Inbox, count: int) -> None:
    inbox.channel.basic_ack(inbox.messages[count - 1].method.delivery_tag, multiple=True)


def test_one_of_a_group_is_served_and_other_groups_do_not_wait_for_it(
    connect: Connect, vhost: str, stream: str
) -> None:
    first, second = join(connect, vhost), join(connect, vhost)
    other = join(connect, vhost, **{"x-stream-group": "others"})
    alone = consume(other.channel, "s", arguments={"x-stream-offset": "first"})
    first.await_count(10)
    other.await_count(10)
    alone.await_count(10)
    settle(second.channel)
    assert numbers(second) == []


def test_the_next_goes_on_at_the_first_record_that_was_not_acknowledged(
    connect: Connect, vhost: str, stream: str
) -> None:
    first, second, third = (join(connect, vhost) for _ in range(3))
    first.await_count(10)
    ack(first, 4)
    first.channel.connection.close()
    second.await_count(6)
    assert numbers(second) == [4, 5, 6, 7, 8, 9]
    ack(second, 6)
    fill(second.channel.connection.channel(), 10, 12)
    second.await_count(8)
    second.channel.basic_cancel(next(iter(second.channel.consumer_tags)))
    third.await_count(2)
    assert numbers(third) == [10, 11], "the longest waiting is next"


def test_a_group_that_was_empty_goes_on_at_its_cursor(
    connect: Connect, vhost: str, stream: str, api: Api
) -> None:
    first = join(connect, vhost)
    first.await_count(10)
    ack(first, 7)
    first.channel.connection.close()
    eventually(lambda: cursor(api, vhost) == 7)
    later = join(connect, vhost, offset="next")
    later.await_count(3)
    assert numbers(later) == [7, 8, 9]
    ack(later, 3)
    later.channel.connection.close()
    eventually(lambda: cursor(api, vhost) == 10)
    body = {"offset": 2, "reset": True}
    api.must(api.put("warren", "streams", vhost, "s", "groups", "readers", body=body))
    again = join(connect, vhost)
    again.await_count(8)
    assert numbers(again) == [2, 3, 4, 5, 6, 7, 8, 9], "as an operator has set it"


def test_where_a_group_begins_is_stored_before_anything_is_acknowledged(
    connect: Connect, vhost: str, stream: str, api: Api
) -> None:
    join(connect, vhost, offset=3).await_count(7)
    eventually(lambda: cursor(api, vhost) == 3)


def test_the_api_says_who_is_active(connect: Connect, vhost: str, stream: str, api: Api) -> None:
    inboxes = [join(connect, vhost) for _ in range(2)]
    shown = api.must(api.get("consumers", vhost))
    assert sorted(each["activity_status"] for each in shown) == ["single_active", "waiting"]
    (active,) = [each for each in shown if each["active"]]
    assert active["consumer_tag"] in inboxes[0].channel.consumer_tags


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-single-active-consumer": True}, "name the group of consumers with 'x-stream-group'"),
        ({"x-stream-group": "g"}, "it has no effect without 'x-single-active-consumer'"),
        ({"x-single-active-consumer": "yes"}, "it is true or false"),
        ({**GROUP, "x-stream-group": 5}, "a group's name is text of 1 to 255 bytes"),
        ({**GROUP, "x-stream-group": ""}, "a group's name is text of 1 to 255 bytes"),
    ],
)
def test_half_of_what_a_group_needs_is_refused(
    connect: Connect, vhost: str, stream: str, arguments: dict[str, Any], text: str
) -> None:
    channel = connect(virtual_host=vhost).channel()
    channel.basic_qos(prefetch_count=1)
    with channel_error(406) as refused:
        channel.basic_consume("s", print, arguments=arguments)
    assert text in refused.text
