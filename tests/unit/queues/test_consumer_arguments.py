"""Arguments of basic.consume. Every text was recorded from RabbitMQ 3.10.8."""

from __future__ import annotations

import pytest

from warren.model.errors import SoftError
from warren.model.fields import EMPTY_TABLE, Field, Table, longstr
from warren.model.records import QueueRecord
from warren.queues.arguments import consumer_priority, validate_consumer_arguments

Arguments = dict[str, Field]


def number(value: int) -> Field:
    return Field("I", value)


def queue(arguments: Arguments) -> QueueRecord:
    return QueueRecord("/", "q", arguments=Table(arguments.items()))


CLASSIC = queue({})
QUORUM = queue({"x-queue-type": longstr("quorum")})
STREAM = queue({"x-queue-type": longstr("stream")})


def refusal_of_consumer(record: QueueRecord, arguments: Arguments) -> str:
    with pytest.raises(SoftError) as caught:
        validate_consumer_arguments(record, Table(arguments.items()))
    assert caught.value.code == 406
    return caught.value.explanation


@pytest.mark.parametrize(
    ("record", "arguments", "tail"),
    [
        (CLASSIC, {"x-priority": longstr("a")}, ': "expected integer, got longstr"'),
        (CLASSIC, {"x-priority": Field("d", 1.5)}, ': "expected integer, got double"'),
        (CLASSIC, {"x-cancel-on-ha-failover": number(1)}, ": {unacceptable_type,signedint}"),
        (CLASSIC, {"x-stream-offset": number(5)}, " of queue type rabbit_classic_queue"),
        (
            QUORUM,
            {"x-cancel-on-ha-failover": Field("t", True)},
            " of queue type rabbit_quorum_queue",
        ),
        (STREAM, {"x-priority": number(5)}, " of queue type rabbit_stream_queue"),
        (
            STREAM,
            {"x-stream-offset": longstr("5X")},
            ': {invalid_stream_offset_arg,{longstr,<<"5X">>}}',
        ),
    ],
)
def test_a_consumer_is_refused(record: QueueRecord, arguments: Arguments, tail: str) -> None:
    (name,) = arguments
    refusal = refusal_of_consumer(record, arguments)
    assert refusal == f"invalid arg '{name}' for queue 'q' in vhost '/'{tail}"


@pytest.mark.parametrize(
    ("record", "arguments"),
    [
        (CLASSIC, {"x-priority": Field("l", -(1 << 62)), "x-foo": number(1)}),
        (CLASSIC, {"x-cancel-on-ha-failover": Field("t", True)}),
        (QUORUM, {"x-priority": number(5)}),
        (STREAM, {"x-stream-offset": longstr("first")}),
        (STREAM, {"x-stream-offset": longstr("5D")}),
        (STREAM, {"x-stream-offset": number(7)}),
        (STREAM, {"x-stream-offset": Field("T", 1)}),
    ],
)
def test_a_consumer_is_taken(record: QueueRecord, arguments: Arguments) -> None:
    validate_consumer_arguments(record, Table(arguments.items()))


def test_a_consumer_s_priority_is_zero_unless_said() -> None:
    assert consumer_priority(EMPTY_TABLE) == 0
    assert consumer_priority(Table([("x-priority", number(-3))])) == -3
