"""Options as Kafka's source has them: understood, or answered with what does the same."""

from __future__ import annotations

import pytest

from pyspark_warren.errors import InvalidOption
from pyspark_warren.options import parse_source_options
from pyspark_warren.positions import LATEST

HTTP = {"url": "http://one:15672"}
SOURCE = {**HTTP, "queue": "orders"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a"}, "option subscribe: give it or option queue, not both"),
        ({"startingOffsets": "{"}, "option startingOffsets: is not JSON"),
        ({"startingOffsets": "{}"}, "option startingOffsets: name at least one queue"),
        ({"startingOffsets": '{"orders": true}'}, "true of 'orders': is no position"),
        ({"startingOffsets": '{"orders": -3}'}, "option startingOffsets: '-3' is neither"),
        ({"startingOffsets": "1", "startingTimestamp": "1"}, "not both"),
        ({"startingTimestamp": "1969-01-01"}, "is before 1970"),
        ({"startingOffsetsByTimestamp": '{"orders": "soon"}'}, "neither milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "has no effect without option start"),
        ({"maxTriggerDelay": "5m"}, "has no effect without option minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "5 weeks", "minOffsetsPerTrigger": "1"}, "is no time of up to"),
        ({"columns": "valeu"}, r"there is no column 'valeu'; did you mean value\?"),
        ({"columns": "value", "includeHeaders": "true"}, "option includeHeaders: has no effect"),
        ({"limit": "5", "filterRoutingKey": "a"}, "option limit: counts records before a filter"),
        ({"filterRoutingKey": ","}, "option filterRoutingKey: give 1 to 64 patterns"),
        ({"kafka.bootstrap.servers": "a"}, "no such option: the broker's address is option url"),
        ({"kafka.fetch.min.bytes": "1"}, "there is no Kafka client here to take it"),
        ({"assign": "{}"}, "name it with option subscribe"),
        ({"groupIdPrefix": "a"}, "is option group"),
    ],
)
def test_words_of_kafka_are_understood_or_answered(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        parse_source_options({**SOURCE, **options})


def test_a_pattern_must_be_one() -> None:
    assert parse_source_options({**HTTP, "subscribePattern": "a.*"}).queues == ()
    with pytest.raises(InvalidOption, match=r"option subscribePattern: '\(' is no pattern"):
        parse_source_options({**HTTP, "subscribePattern": "("})


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("90s", 90), ("15m", 900), ("2 h", 7200), ("1d", 86400)]
)
def test_delays_have_units(text: str, seconds: float) -> None:
    options = {**SOURCE, "minOffsetsPerTrigger": "1", "maxTriggerDelay": text}
    assert parse_source_options(options).trigger_delay_s == seconds


@pytest.mark.parametrize("text", ['{"orders": -1}', '{"orders": "latest"}', "latest"])
def test_the_end_may_be_said_in_kafkas_numbers_for_each_queue(text: str) -> None:
    assert parse_source_options({**SOURCE, "startingOffsets": text}).batch_start("orders") == LATEST
