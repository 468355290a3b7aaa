"""Options of the Spark source and sink: what they mean, and what is said about wrong ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyspark_warren.endpoints import Endpoint, Identity, parse_endpoints
from pyspark_warren.errors import InvalidOption
from pyspark_warren.options import (
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    parse_sink_options,
    parse_source_options,
)
from pyspark_warren.positions import EARLIEST, LATEST, PositionKind, parse_position
from pyspark_warren.schema import COLUMN_NAMES
from pyspark_warren.source import WarrenDataSource

HTTP = {"url": "http://one:15672"}
SOURCE = {**HTTP, "queue": "orders"}


def test_a_source_needs_no_more_than_an_address_and_a_queue() -> None:
    options = parse_source_options(SOURCE)
    assert options.queues == ("orders",)
    assert options.vhost == "/"
    assert options.batch_start("orders") == EARLIEST
    assert options.stream_start("orders") == LATEST
    assert options.batch_end("orders") == LATEST
    assert options.fail_on_data_loss
    assert options.columns == COLUMN_NAMES
    assert options.partitions_min is None


def test_names_of_options_are_known_in_any_case_of_letters() -> None:
    options = parse_source_options({**SOURCE, "MAXOFFSETSPERTRIGGER": "5", "failondataloss": "No"})
    assert options.offsets_per_trigger_max == 5
    assert not options.fail_on_data_loss


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("startingOffset", "startingOffsets"),
        ("starting_offsets", "startingOffsets"),
        ("maxOffsetsPerTriger", "maxOffsetsPerTrigger"),
        ("queues", "queue"),
        ("urls", "url"),
    ],
)
def test_a_misspelt_option_is_named_with_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(InvalidOption, match=rf"option {wrong}: .*did you mean {right}\?"):
        parse_source_options({**SOURCE, wrong: "1"})


def test_an_option_that_resembles_none_is_answered_with_all() -> None:
    with pytest.raises(InvalidOption, match="option zzz: no such option; known: url, user"):
        parse_source_options({**SOURCE, "zzz": "1"})


def test_an_option_of_the_sink_is_none_of_the_source() -> None:
    with pytest.raises(InvalidOption, match="option idColumns: not an option of Warren's source"):
        parse_source_options({**SOURCE, "idColumns": "a"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("maxOffsetsPerTrigger", "-1"),
        ("maxBytesPerTrigger", "1.5"),
        ("failOnDataLoss", "perhaps"),
        ("startingOffsets", "yesterday"),
        ("endingOffsets", "-2"),
        ("group", " "),
    ],
)
def test_a_wrong_value_is_refused_with_the_name_of_its_option(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=f"option {name}: "):
        parse_source_options({**SOURCE, name: value})


def test_a_source_without_a_queue_or_an_address_says_so() -> None:
    with pytest.raises(InvalidOption, match="option queue: name 1 to"):
        parse_source_options(HTTP)
    with pytest.raises(InvalidOption, match="option url: is missing"):
        parse_source_options({"queue": "orders"})


def test_files_need_no_broker_and_no_name() -> None:
    options = parse_source_options({"path": "streams"})
    assert (options.path, options.endpoints, options.queues) == ("streams", (), ())
    both = parse_source_options({"path": "streams", **SOURCE})
    assert len(both.endpoints) == 1
    with pytest.raises(InvalidOption, match="option exchange: needs option url"):
        parse_source_options({"path": "streams", "exchange": "events"})
    with pytest.raises(InvalidOption, match="option queue: name 1 to"):
        parse_source_options({"path": "streams", **HTTP})


def test_who_signed_certificates_is_asked_of_secure_addresses_alone() -> None:
    url = "https://a, amqps://a"
    options = parse_source_options({"url": url, "queue": "q", "caFile": "ca.pem"})
    assert options.endpoints[0].identity.ca_file == "ca.pem"
    sink = parse_sink_options({"url": url, "caFile": "ca.pem"})
    assert sink.endpoints[0].identity.ca_file == "ca.pem"
    with pytest.raises(InvalidOption, match=r"option caFile: no address .* is https"):
        parse_source_options({**SOURCE, "caFile": "ca.pem"})
    with pytest.raises(InvalidOption, match=r"option caFile: nowhere.pem"):
        Endpoint("https", "a", 1, "me", "secret", identity=Identity("nowhere.pem")).tls_context()


def test_a_certificate_needs_a_secure_address_and_is_read_where_it_is_shown() -> None:
    url = "https://a, amqps://a"
    options = parse_sink_options({"url": url, "certFile": "me.pem", "keyFile": "me.key"})
    assert options.endpoints[0].is_external
    assert options.endpoints[0].who == "certificate me.pem"
    named = parse_sink_options({"url": url, "certFile": "me.pem", "user": "me"})
    assert not named.endpoints[0].is_external
    with pytest.raises(InvalidOption, match=r"option certFile: no address .* is https"):
        parse_source_options({**SOURCE, "certFile": "me.pem"})
    with pytest.raises(InvalidOption, match="option keyFile: needs option certFile"):
        parse_sink_options({"url": url, "keyFile": "me.key"})
    with pytest.raises(InvalidOption, match=r"options certFile, keyFile: me\.pem, me\.key: "):
        options.endpoints[0].tls_context()


def test_a_token_is_shown_in_place_of_a_password_and_never_printed(tmp_path: Path) -> None:
    options = parse_source_options({**SOURCE, "token": "s3cret"})
    assert options.endpoints[0].identity.bearer() == "s3cret"
    assert "s3cret" not in repr(options)
    file = tmp_path / "token"
    file.write_text("first\n")
    (endpoint,) = parse_sink_options({"url": "amqp://a", "tokenFile": str(file)}).endpoints
    assert endpoint.identity.bearer() == "first"
    file.write_text("second")
    assert endpoint.identity.bearer() == "second"
    file.write_text("")
    with pytest.raises(InvalidOption, match="is empty"):
        endpoint.identity.bearer()
    with pytest.raises(InvalidOption, match="give it or option token"):
        parse_source_options({**SOURCE, "token": "s3cret", "tokenFile": str(file)})


def test_each_side_takes_the_addresses_of_its_protocol() -> None:
    both = "http://a, amqp://b, http://c:1"
    assert [str(e) for e in parse_source_options({"url": both, "queue": "q"}).endpoints] == [
        "http://a:15672",
        "http://c:1",
    ]
    assert [str(e) for e in parse_sink_options({"url": both}).endpoints] == ["amqp://b:5672"]
    with pytest.raises(InvalidOption, match="the sink publishes over AMQP"):
        parse_sink_options(HTTP)
    with pytest.raises(InvalidOption, match="the source reads over HTTP"):
        parse_source_options({"url": "amqp://a", "queue": "q"})


def test_an_address_says_who_we_are_and_where() -> None:
    (endpoint,) = parse_endpoints("amqps://me:a%2Fb@host/%2Fown", "other", "secret")
    assert (endpoint.user, endpoint.password, endpoint.vhost) == ("me", "a/b", "/own")
    assert endpoint.port == 5671
    assert endpoint.is_secure
    assert "a/b" not in repr(endpoint)
    assert parse_sink_options({"url": "amqp://host/%2Fown"}).vhost == "/own"


@pytest.mark.parametrize("url", ["", "host:1", "ftp://host", "http://", "http://host:port", ","])
def test_what_is_no_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidOption, match="option url: "):
        parse_source_options({"url": url, "queue": "q"})


def test_several_queues_are_read_each_once() -> None:
    assert parse_source_options({**HTTP, "queue": "a, b,a"}).queues == ("a", "b")


def test_an_exchange_gets_a_stream_named_after_it() -> None:
    options = parse_source_options({**HTTP, "exchange": "events", "routingKey": "a.#"})
    assert options.queues == ("spark.events.a.#",)
    named = parse_source_options({**HTTP, "exchange": "events", "queue": "mine"})
    assert (named.queues, named.routing_key) == (("mine",), "#")
    with pytest.raises(InvalidOption, match="option routingKey: needs option exchange"):
        parse_source_options({**SOURCE, "routingKey": "a"})
    with pytest.raises(InvalidOption, match="option queue: name one queue"):
        parse_source_options({**HTTP, "exchange": "events", "queue": "a,b"})


def test_a_number_is_an_offset_and_a_date_a_moment() -> None:
    assert parse_position("startingOffsets", "12").kind is PositionKind.OFFSET
    moment = parse_position("startingOffsets", "2026-01-01T00:00:00+01:00")
    assert (moment.kind, moment.number) == (PositionKind.MOMENT, 1_767_222_000_000)
    assert parse_position("startingOffsets", "1970-01-02").number == 86_400_000
    assert parse_position("startingOffsets", "LATEST") == LATEST


def test_a_sink_knows_an_empty_routing_key_from_none() -> None:
    amqp = {"url": "amqp://a"}
    assert parse_sink_options(amqp).routing_key is None
    assert parse_sink_options({**amqp, "routingKey": ""}).routing_key == ""
    assert parse_sink_options({**amqp, "idColumns": "queue, offset"}).id_columns == (
        "queue",
        "offset",
    )


def test_the_data_source_explains_every_option() -> None:
    source, _, sink = str(WarrenDataSource.__doc__).partition("Options of the sink")
    for text, options in ((source, SOURCE_OPTIONS), (sink, SINK_OPTIONS)):
        headings = {word for line in text.splitlines() for word in re.findall(r"\w+", line)}
        assert set(options) - headings == set()


def test_a_super_stream_is_read_as_far_as_it_has_grown() -> None:
    options = parse_source_options({**HTTP, "superStream": "orders"})
    assert (options.super_stream, options.queues, options.is_open) == ("orders", (), True)
    assert not parse_source_options(SOURCE).is_open


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({**SOURCE, "superStream": "s"}, "option superStream: give it or option queue, not both"),
        (
            {**HTTP, "subscribePattern": "a", "superStream": "s"},
            "option superStream: give it or option subscribePattern, not both",
        ),
        ({**HTTP, "exchange": "e", "superStream": "s"}, "option queue: name one queue"),
        ({"path": "somewhere", "superStream": "s"}, "option superStream: needs option url"),
    ],
)
def test_a_super_stream_says_alone_what_is_read(given: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        parse_source_options(given)


def test_a_sink_publishes_to_a_super_stream_by_a_column() -> None:
    given = {"url": "amqp://one", "superStream": "orders", "partitionKey": "customer"}
    options = parse_sink_options(given)
    assert (options.exchange, options.partition_key) == ("orders", "customer")
    for other, one in (("exchange", "superStream"), ("routingKey", "partitionKey")):
        with pytest.raises(InvalidOption, match=f"option {other}: give it or option {one}"):
            parse_sink_options({**given, other: "x"})
