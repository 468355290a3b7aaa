"""Which queues a message reaches, exchange kind by exchange kind."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from acceptance.actions import channel_error, drain, get
from live_broker import Names


def test_two_bindings_that_match_deliver_once(channel: BlockingChannel, names: Names) -> None:
    """T065: one queue bound twice to a direct exchange's key, straight and by another exchange."""
    direct, fanout, queue = names("direct"), names("fanout"), names("queue")
    channel.exchange_declare(direct, "direct")
    channel.exchange_declare(fanout, "fanout")
    channel.queue_declare(queue)
    channel.queue_bind(queue, direct, "key")
    channel.queue_bind(queue, fanout)
    channel.exchange_bind(fanout, direct, "key")
    channel.basic_publish(direct, "key", b"once")
    assert drain(channel, queue) == [b"once"]


def test_a_direct_exchange_compares_the_whole_key(channel: BlockingChannel, names: Names) -> None:
    """T065: several keys for one queue, each matching itself alone."""
    exchange, queue = names("direct"), names("queue")
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(queue)
    for key in ("a", "b"):
        channel.queue_bind(queue, exchange, key)
    for key in ("a", "b", "c", "a.b", ""):
        channel.basic_publish(exchange, key, key.encode())
    assert drain(channel, queue) == [b"a", b"b"]


def topic_matches(
    channel: BlockingChannel, names: Names, patterns: list[str], key: str
) -> set[str]:
    """Which of the patterns a publish with this key reaches, one queue for each."""
    exchange = names("topic")
    channel.exchange_declare(exchange, "topic")
    queues = {pattern: names(f"queue-{number}") for number, pattern in enumerate(patterns)}
    for pattern, queue in queues.items():
        channel.queue_declare(queue)
        channel.queue_bind(queue, exchange, pattern)
    channel.basic_publish(exchange, key, b"topic")
    return {pattern for pattern, queue in queues.items() if drain(channel, queue) == [b"topic"]}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b.c", {"*.b.#", "#.c", "#", "a.b.c", "#.b.#", "a.#.c", "#.#"}),
        ("a.b", {"*.b.#", "*.*", "#", "#.b.#", "#.#"}),
        ("c", {"#.c", "#", "#.#", "*"}),
        ("b", {"#", "#.b.#", "#.#", "*"}),
        ("a.b.b.c", {"*.b.#", "#.c", "#", "#.b.#", "a.#.c", "#.#"}),
        ("*.b", {"*.b.#", "*.*", "#", "#.b.#", "#.#"}),
    ],
)
def test_topics_match_by_words(
    channel: BlockingChannel, names: Names, key: str, expected: set[str]
) -> None:
    """T066: a star is one word, a hash any number of them; in keys both are plain words."""
    patterns = ["*.b.#", "#.c", "*.*", "#", "a.b.c", "#.b.#", "a.#.c", "#.#", "*"]
    assert topic_matches(channel, names, patterns, key) == expected


def test_an_empty_topic_has_no_words(channel: BlockingChannel, names: Names) -> None:
    """T067: "" is matched by # and by a binding with "", not by *."""
    patterns = ["#", "", "*", "#.a", "*.#"]
    assert topic_matches(channel, names, patterns, "") == {"#", ""}


def test_two_dots_enclose_an_empty_word(channel: BlockingChannel, names: Names) -> None:
    """T068: a..b has three words, and a star matches the empty one."""
    patterns = ["a.*.b", "a.b", "a..b", "a.#.b", "*.*"]
    assert topic_matches(channel, names, patterns, "a..b") == {"a.*.b", "a..b", "a.#.b"}


def headers_match(
    channel: BlockingChannel, names: Names, arguments: dict[str, Any], headers: dict[str, Any]
) -> bool:
    exchange, queue = names("headers"), names("queue")
    channel.exchange_declare(exchange, "headers")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "", arguments)
    channel.basic_publish(exchange, "", b"", pika.BasicProperties(headers=headers))
    return drain(channel, queue) == [b""]


ONE_TWO = {"one": 1, "two": "2"}


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({"x-match": "all", **ONE_TWO}, ONE_TWO, True),
        ({"x-match": "all", **ONE_TWO}, {**ONE_TWO, "three": 3}, True),
        ({"x-match": "all", **ONE_TWO}, {"one": 1}, False),
        ({"x-match": "all", **ONE_TWO}, {"one": 1, "two": "3"}, False),
        ({**ONE_TWO}, {"one": 1}, False),
        ({**ONE_TWO}, ONE_TWO, True),
        ({"x-match": "any", **ONE_TWO}, {"one": 1}, True),
        ({"x-match": "any", **ONE_TWO}, {"two": "2", "one": 5}, True),
        ({"x-match": "any", **ONE_TWO}, {"three": 3}, False),
        ({"x-match": "any", **ONE_TWO}, {}, False),
        ({"x-match": "any"}, ONE_TWO, False),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "all", "one": 1}, {"one": 2**40 - 2**40 + 1}, True),
        ({"x-match": "all", "one": 1}, {"one": "1"}, False),
    ],
)
def test_headers_match_all_or_any(
    channel: BlockingChannel,
    names: Names,
    arguments: dict[str, Any],
    headers: dict[str, Any],
    expected: bool,
) -> None:
    """T069: `all` is the default; no arguments match always for all, never for any."""
    assert headers_match(channel, names, arguments, headers) is expected


@pytest.mark.parametrize(("headers", "expected"), [({"here": "anything"}, True), ({}, False)])
def test_a_void_binding_value_asks_for_presence(
    channel: BlockingChannel, names: Names, headers: dict[str, Any], expected: bool
) -> None:
    """T070: a key bound without a value matches any value."""
    assert headers_match(channel, names, {"x-match": "all", "here": None}, headers) is expected


def test_binding_keys_that_begin_with_x_are_not_compared(
    channel: BlockingChannel, names: Names
) -> None:
    """T071: x-foo in the binding is ignored."""
    arguments = {"x-match": "all", "x-foo": "bar", "one": 1}
    assert headers_match(channel, names, arguments, {"one": 1})


def test_with_x_variants_compare_them(channel: BlockingChannel, names: Names) -> None:
    """T071: all-with-x looks at x-foo too."""
    arguments = {"x-match": "all-with-x", "x-foo": "bar"}
    assert not headers_match(channel, names, arguments, {"one": 1})
    assert headers_match(channel, names, arguments, {"x-foo": "bar"})


@pytest.mark.parametrize(
    ("value", "text"), [("some", "Invalid x-match field value"), (1, "Invalid x-match field type")]
)
def test_x_match_is_checked_at_bind(
    channel: BlockingChannel, names: Names, value: object, text: str
) -> None:
    """T072: anything but the known words is a 406."""
    queue = names("queue")
    channel.queue_declare(queue)
    with channel_error(406) as refusal:
        channel.queue_bind(queue, "amq.headers", "", {"x-match": value})
    assert text in refusal.text


def test_cc_adds_routing_keys(channel: BlockingChannel, names: Names) -> None:
    """T076: each key in CC reaches its queue, all see the key published with, CC stays."""
    queues = [names("to"), names("cc-1"), names("cc-2")]
    for queue in queues:
        channel.queue_declare(queue)
    headers = {"CC": queues[1:]}
    channel.basic_publish("", queues[0], b"copy", pika.BasicProperties(headers=headers))
    for queue in queues:
        message = get(channel, queue)
        assert message is not None
        assert message.method.routing_key == queues[0]
        assert message.properties.headers == headers


def test_bcc_is_removed(channel: BlockingChannel, names: Names) -> None:
    """T077: BCC routes too, but no consumer sees the header."""
    open_queue, hidden_queue = names("to"), names("bcc")
    for queue in (open_queue, hidden_queue):
        channel.queue_declare(queue)
    headers = {"BCC": [hidden_queue], "other": 1}
    channel.basic_publish("", open_queue, b"copy", pika.BasicProperties(headers=headers))
    for queue in (open_queue, hidden_queue):
        message = get(channel, queue)
        assert message is not None
        assert message.properties.headers == {"other": 1}


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_cc_must_be_a_list(channel: BlockingChannel, names: Names, header: str) -> None:
    """T078: a string is a 406."""
    queue = names("queue")
    channel.queue_declare(queue)
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers={header: "word"}))
    with channel_error(406) as refusal:
        channel.queue_declare(queue, passive=True)
    assert "unacceptable_type_in_header" in refusal.text
