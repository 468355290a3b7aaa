"""Declaring a queue that exists already. Every text was recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warren.model.errors import SoftError
from warren.model.fields import Field, Table, longstr
from warren.model.records import QueueRecord
from warren.queues.arguments import require_same_queue

Arguments = dict[str, Field]


def number(value: int) -> Field:
    return Field("I", value)


def queue(arguments: Arguments) -> QueueRecord:
    return QueueRecord("/", "q", arguments=Table(arguments.items()))


CLASSIC = queue({})
QUORUM = queue({"x-queue-type": longstr("quorum")})


def test_a_second_declaration_may_use_another_integer_type() -> None:
    require_same_queue(
        queue({"x-message-ttl": number(1000)}), queue({"x-message-ttl": Field("l", 1000)})
    )


def test_a_second_declaration_may_differ_in_arguments_the_broker_does_not_know() -> None:
    require_same_queue(queue({"foo": number(1)}), queue({"foo": number(2), "x-bar": number(3)}))
    require_same_queue(CLASSIC, queue({"x-delivery-limit": number(5)}))


def test_classic_by_default_and_on_request_are_the_same() -> None:
    spelled_out = queue({"x-queue-type": longstr("classic")})
    require_same_queue(CLASSIC, spelled_out)
    require_same_queue(spelled_out, CLASSIC)


@pytest.mark.parametrize(
    ("existing", "wanted", "text"),
    [
        (
            CLASSIC,
            replace(CLASSIC, durable=False),
            "'durable' {}: received 'false' but current is 'true'",
        ),
        (
            CLASSIC,
            replace(CLASSIC, auto_delete=True),
            "'auto_delete' {}: received 'true' but current is 'false'",
        ),
        (
            queue({"x-message-ttl": number(1000)}),
            queue({"x-message-ttl": number(2000)}),
            "'x-message-ttl' {}: received '2000' but current is '1000'",
        ),
        (
            queue({"x-max-length": number(1), "x-expires": number(60_000)}),
            queue({"x-max-length": number(2), "x-expires": number(70_000)}),
            "'x-expires' {}: received '70000' but current is '60000'",
        ),
        (
            queue({"x-expires": number(5)}),
            CLASSIC,
            "'x-expires' {}: received none but current is the value '5' of type 'signedint'",
        ),
        (
            CLASSIC,
            queue({"x-queue-mode": longstr("default")}),
            "'x-queue-mode' {}: received the value 'default' of type 'longstr' but current is none",
        ),
        (
            queue({"x-queue-master-locator": longstr("min-masters")}),
            queue({"x-queue-master-locator": longstr("a")}),
            "'x-queue-master-locator' {}: received 'a' but current is 'min-masters'",
        ),
        (
            CLASSIC,
            QUORUM,
            "'x-queue-type' {}: received the value 'quorum' of type 'longstr' but current is none",
        ),
        (
            queue({"x-queue-type": longstr("classic")}),
            QUORUM,
            "'x-queue-type' {}: received 'quorum' but current is 'classic'",
        ),
        (
            QUORUM,
            CLASSIC,
            "'x-queue-type' {}: received none but current is the value 'quorum' of type 'longstr'",
        ),
        (
            queue({"x-queue-type": longstr("quorum"), "x-delivery-limit": number(1)}),
            queue({"x-queue-type": longstr("quorum"), "x-delivery-limit": number(2)}),
            "'x-delivery-limit' {}: received '2' but current is '1'",
        ),
    ],
)
def test_a_second_declaration_that_differs_is_refused(
    existing: QueueRecord, wanted: QueueRecord, text: str
) -> None:
    with pytest.raises(SoftError) as caught:
        require_same_queue(existing, wanted)
    expected = text.format("for queue 'q' in vhost '/'")
    assert caught.value.reply_text == f"PRECONDITION_FAILED - inequivalent arg {expected}"
