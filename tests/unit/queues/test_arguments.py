"""Arguments of a queue that is to be created. Every text was recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warren.model.errors import SoftError
from warren.model.fields import EMPTY_TABLE, Field, Table, array, longstr
from warren.model.records import QueueRecord
from warren.queues.arguments import (
    dead_letter_exchange_of,
    require_server_name_allowed,
    validate_queue,
)

Arguments = dict[str, Field]


def number(value: int) -> Field:
    return Field("I", value)


def queue(arguments: Arguments, **flags: object) -> QueueRecord:
    return replace(QueueRecord("/", "q", arguments=Table(arguments.items())), **flags)


def refusal_of_queue(record: QueueRecord) -> str:
    with pytest.raises(SoftError) as caught:
        validate_queue(record)
    assert caught.value.code == 406
    return caught.value.explanation


CLASSIC = queue({})


@pytest.mark.parametrize(
    ("name", "field", "tail"),
    [
        ("x-message-ttl", number(-1), "{value_negative,-1}"),
        ("x-message-ttl", longstr("abc"), '"expected integer, got longstr"'),
        ("x-message-ttl", Field("d", 1.5), '"expected integer, got double"'),
        ("x-message-ttl", Field("t", True), '"expected integer, got bool"'),
        ("x-message-ttl", Field("D", (2, 5)), '"expected integer, got decimal"'),
        ("x-message-ttl", Field("l", 1 << 40), "{value_too_large,1099511627776}"),
        ("x-expires", number(0), "{value_zero,0}"),
        ("x-expires", number(-1), "{value_negative,-1}"),
        ("x-expires", longstr("abc"), '"expected integer, got longstr"'),
        ("x-expires", Field("V", None), '"expected integer, got void"'),
        ("x-expires", Field("l", 1 << 40), "{value_too_large,1099511627776}"),
        ("x-max-length", number(-1), "{value_negative,-1}"),
        ("x-max-length", longstr("abc"), '"expected integer, got longstr"'),
        ("x-max-length", Field("T", 5), '"expected integer, got timestamp"'),
        ("x-max-length-bytes", number(-1), "{value_negative,-1}"),
        ("x-max-length-bytes", longstr("abc"), '"expected integer, got longstr"'),
        ("x-max-priority", number(-1), "{value_negative,-1}"),
        ("x-max-priority", number(256), "{max_value_exceeded,256}"),
        ("x-max-priority", array([number(1)]), '"expected integer, got array"'),
        ("x-dead-letter-routing-key", longstr("k"), "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", number(5), "{unacceptable_type,signedint}"),
        ("x-overflow", longstr("bogus"), "invalid_overflow"),
        ("x-overflow", number(5), "{unacceptable_type,signedint}"),
        ("x-overflow", Field("F", EMPTY_TABLE), "{unacceptable_type,table}"),
        ("x-queue-type", longstr("bogus"), "\"unsupported queue type 'bogus'\""),
        ("x-queue-type", number(5), "{unacceptable_type,signedint}"),
        ("x-queue-type", longstr("h\u00e9\n"), "\"unsupported queue type 'h\u00e9\\n'\""),
        ("x-queue-mode", longstr("bogus"), "\"unsupported queue mode 'bogus'\""),
        ("x-queue-mode", longstr('h"\\'), '"unsupported queue mode \'h\\"\\\\\'"'),
        ("x-queue-mode", number(5), "{unacceptable_type,signedint}"),
        ("x-queue-version", number(3), "\"unsupported queue version '3'\""),
        ("x-queue-version", number(-1), "{value_negative,-1}"),
        ("x-queue-version", longstr("a"), '"expected integer, got longstr"'),
        ("x-single-active-consumer", longstr("yes"), "{unacceptable_type,longstr}"),
        ("x-single-active-consumer", number(1), "{unacceptable_type,signedint}"),
    ],
)
def test_a_classic_queue_refuses(name: str, field: Field, tail: str) -> None:
    expected = f"invalid arg '{name}' for queue 'q' in vhost '/': {tail}"
    assert refusal_of_queue(queue({name: field})) == expected


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("x-message-ttl", number(0)),
        ("x-message-ttl", Field("s", 5)),
        ("x-message-ttl", Field("b", 5)),
        ("x-message-ttl", Field("u", 5)),
        ("x-message-ttl", Field("l", 1 << 32)),
        ("x-message-ttl", Field("l", 315_360_000_000)),
        ("x-expires", Field("l", 1 << 32)),
        ("x-max-length", number(0)),
        ("x-max-priority", number(0)),
        ("x-max-priority", number(255)),
        ("x-dead-letter-exchange", longstr("")),
        ("x-overflow", longstr("reject-publish-dlx")),
        ("x-queue-type", longstr("classic")),
        ("x-queue-mode", longstr("lazy")),
        ("x-queue-version", number(2)),
        ("x-single-active-consumer", Field("t", False)),
        ("x-queue-master-locator", longstr("bogus")),
        ("x-foo", longstr("anything")),
        ("foo", Field("V", None)),
    ],
)
def test_a_classic_queue_takes(name: str, field: Field) -> None:
    validate_queue(queue({name: field}))


@pytest.mark.parametrize(
    ("kind", "name", "field", "tail"),
    [
        ("quorum", "x-quorum-initial-group-size", number(0), "{value_zero,0}"),
        ("quorum", "x-queue-leader-locator", longstr("x"), "invalid_queue_locator_arg"),
        ("quorum", "x-queue-leader-locator", number(4), "{unacceptable_type,signedint}"),
        ("quorum", "x-dead-letter-strategy", longstr("x"), "invalid_dlx_strategy"),
        ("quorum", "x-dead-letter-strategy", number(4), "{unacceptable_type,signedint}"),
        ("quorum", "x-max-in-memory-length", longstr("a"), '"expected integer, got longstr"'),
        ("quorum", "x-message-ttl", number(-1), "{value_negative,-1}"),
        ("stream", "x-max-age", longstr("5"), "invalid_max_age"),
        ("stream", "x-max-age", longstr("0D"), "invalid_max_age"),
        ("stream", "x-max-age", number(5), "{unacceptable_type,signedint}"),
        ("stream", "x-initial-cluster-size", number(0), "{value_zero,0}"),
        (
            "stream",
            "x-stream-max-segment-size-bytes",
            longstr("a"),
            '"expected integer, got longstr"',
        ),
    ],
)
def test_other_types_check_their_own_arguments(
    kind: str, name: str, field: Field, tail: str
) -> None:
    record = queue({"x-queue-type": longstr(kind), name: field})
    assert refusal_of_queue(record) == f"invalid arg '{name}' for queue 'q' in vhost '/': {tail}"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("classic", "x-delivery-limit"),
        ("classic", "x-max-in-memory-length"),
        ("classic", "x-dead-letter-strategy"),
        ("classic", "x-max-age"),
        ("classic", "x-queue-leader-locator"),
        ("quorum", "x-max-priority"),
        ("quorum", "x-queue-mode"),
        ("quorum", "x-max-age"),
        ("stream", "x-message-ttl"),
        ("stream", "x-delivery-limit"),
        ("stream", "x-quorum-initial-group-size"),
    ],
)
def test_an_argument_that_only_another_type_knows_is_refused(kind: str, name: str) -> None:
    assert refusal_of_queue(queue({"x-queue-type": longstr(kind), name: number(5)})) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue"
    )


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"auto_delete": True, "owner": "connection", "durable": False}, "auto-delete"),
        ({"owner": "connection", "durable": False}, "exclusive-owner"),
        ({"durable": False}, "non-durable"),
    ],
)
def test_replicated_queues_are_durable_and_nobody_s(
    kind: str, flags: dict[str, object], named: str
) -> None:
    record = queue({"x-queue-type": longstr(kind)}, **flags)
    assert refusal_of_queue(record) == f"invalid property '{named}' for queue 'q' in vhost '/'"


def test_a_stream_s_segments_have_a_largest_size() -> None:
    size = {"x-stream-max-segment-size-bytes": Field("l", 4_000_000_000)}
    refusal = refusal_of_queue(queue({"x-queue-type": longstr("stream"), **size}))
    assert refusal == "Exceeded max value for x-stream-max-segment-size-bytes"


def test_a_quorum_queue_does_not_check_its_delivery_limit() -> None:
    validate_queue(queue({"x-queue-type": longstr("quorum"), "x-delivery-limit": longstr("abc")}))


@pytest.mark.parametrize(
    ("field", "type_name"),
    [(number(5), "signedint"), (Field("V", None), "void"), (Field("x", b"a"), "binary")],
)
def test_a_dead_letter_exchange_is_named_by_a_long_string(field: Field, type_name: str) -> None:
    record = queue({"x-dead-letter-exchange": field})
    assert refusal_of_queue(record) == (
        f"invalid type '{type_name}' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )
    assert dead_letter_exchange_of(queue({"x-dead-letter-exchange": longstr("d")})) == "d"
    assert dead_letter_exchange_of(CLASSIC) is None


def test_a_dead_letter_key_that_no_delivery_could_carry_is_refused() -> None:
    arguments = {
        "x-dead-letter-exchange": longstr(""),
        "x-dead-letter-routing-key": longstr("k" * 255),
    }
    validate_queue(queue(arguments))
    arguments["x-dead-letter-routing-key"] = longstr("k" * 256)
    assert refusal_of_queue(queue(arguments)).endswith(": {value_too_long,256}")


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        (
            {"x-overflow": longstr("b"), "x-max-length": number(-1), "x-expires": number(0)},
            "'x-expires'",
        ),
        ({"x-delivery-limit": number(1), "x-max-length": number(-1)}, "'x-max-length'"),
        (
            {"x-queue-type": longstr("bogus"), "x-dead-letter-exchange": number(5)},
            "'x-dead-letter-exchange'",
        ),
        (
            {
                "x-queue-type": longstr("quorum"),
                "x-max-priority": number(1),
                "x-max-age": number(1),
            },
            "'x-max-priority'",
        ),
    ],
)
def test_of_several_mistakes_the_one_rabbitmq_sees_first_is_told(
    arguments: Arguments, blamed: str
) -> None:
    assert blamed in refusal_of_queue(queue(arguments))


def test_of_duplicate_arguments_the_first_counts() -> None:
    arguments = Table([("x-max-length", number(1)), ("x-max-length", number(-1))])
    validate_queue(replace(CLASSIC, arguments=arguments))


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_server_names_only_classic_queues(kind: str) -> None:
    require_server_name_allowed(EMPTY_TABLE)
    require_server_name_allowed(Table([("x-queue-type", longstr("classic"))]))
    with pytest.raises(SoftError) as caught:
        require_server_name_allowed(Table([("x-queue-type", longstr(kind))]))
    assert caught.value.reply_text == (
        f"PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue"
    )
