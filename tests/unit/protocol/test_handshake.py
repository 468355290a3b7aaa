"""Connection negotiation apart from the login: events in, actions out."""

from __future__ import annotations

from typing import cast

import pytest
from pamqp.commands import Channel, Connection

from negotiating import (
    BEFORE_OPEN,
    BEFORE_START_OK,
    BEFORE_TUNE_OK,
    HEADER,
    HEADER_SENT,
    RUNNING,
    after,
    authenticate,
    handshake,
    open_,
    sent,
    silent,
    start_ok,
    told,
    tune_ok,
)
from warren.model.errors import HardError, frame_error
from warren.model.fields import Field, Table, longstr
from warren.protocol.capabilities import SERVER_CAPABILITIES, server_properties
from warren.protocol.handshake import Handshake, HandshakeSettings, State
from warren.protocol.negotiation import (
    Event,
    MethodReceived,
    Negotiated,
    Opened,
    ProtocolHeader,
    SendMethod,
    SendProtocolHeaderAndClose,
    StrayFrame,
    Timeout,
    UnreadableFrame,
)
from warren.wire.methods import decode_method, encode_method


@pytest.mark.parametrize(
    "header",
    [b"HTTP/1.1", b"AMQP\0\1\0\0", b"AMQP\3\1\0\0", b"AMQP\0\0\x09\x02", b"AMQP\0\0\x09\0"],
)
def test_t001_an_unknown_protocol_is_answered_with_ours_and_closed(header: bytes) -> None:
    machine = handshake()
    (action,) = machine.handle(ProtocolHeader(header))
    assert isinstance(action, SendProtocolHeaderAndClose)
    assert action.header == HEADER
    assert machine.state is State.CLOSED


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (HEADER, (0, 9)),
        (b"AMQP\1\1\0\x09", (0, 9)),
        (b"AMQP\1\1\x08\0", (8, 0)),
        (b"AMQP\1\1\x09\1", (8, 0)),
    ],
)
def test_t002_each_supported_header_gets_start_with_its_version(
    header: bytes, version: tuple[int, int]
) -> None:
    start = sent(after(ProtocolHeader(header)))
    assert isinstance(start, Connection.Start)
    assert (start.version_major, start.version_minor) == version


def test_t003_start_tells_product_version_and_nine_capabilities() -> None:
    start = decode_method(encode_method(sent(after(HEADER_SENT))))
    assert isinstance(start, Connection.Start)
    properties = cast("Table", start.server_properties)
    assert [name for name, _ in properties] == [
        "capabilities", "cluster_name", "copyright", "information", "platform", "product",
        "version",
    ]  # fmt: skip
    assert properties.get("product") == longstr("RabbitMQ")
    assert properties.get("version") == longstr("3.10.8")
    capabilities = properties.get("capabilities")
    assert capabilities is not None
    assert len(SERVER_CAPABILITIES) == 9
    assert capabilities.value == Table((name, Field("t", True)) for name in SERVER_CAPABILITIES)
    assert set(start.mechanisms.split()) == {"PLAIN", "AMQPLAIN"}
    assert start.locales == "en_US"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            tune_ok(frame_max=100),
            "negotiated frame_max = 100 is lower than the minimum allowed value (4096)",
        ),
        (
            tune_ok(frame_max=1 << 24),
            "negotiated frame_max = 16777216 is higher than the maximum allowed value (131072)",
        ),
        (
            tune_ok(channel_max=0),
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
        (
            tune_ok(channel_max=2048),
            "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)",
        ),
    ],
    ids=["t011-frame-max-low", "frame-max-high", "t012-channel-max-zero", "t013-channel-max-high"],
)
def test_limits_out_of_range_are_not_allowed(event: Event, text: str) -> None:
    assert told(after(*BEFORE_TUNE_OK, event)) == (f"NOT_ALLOWED - {text}", 10, 31)


def test_a_frame_max_of_zero_ends_in_silence_as_in_rabbitmq() -> None:
    seconds, reason = silent(after(*BEFORE_TUNE_OK, tune_ok(frame_max=0)))
    assert seconds == 3
    assert "frame_max = 0 is higher than the maximum allowed value (131072)" in reason


def test_the_clients_lower_limits_are_taken() -> None:
    assert after(*BEFORE_TUNE_OK, tune_ok(7, 4096, 5)) == [
        Negotiated(frame_max=4096, heartbeat_s=5, channel_max=7)
    ]


@pytest.mark.parametrize("heartbeat_s", [0, 1, 600])
def test_the_clients_heartbeat_is_taken_as_it_is(heartbeat_s: int) -> None:
    (action,) = after(*BEFORE_TUNE_OK, tune_ok(heartbeat=heartbeat_s))
    assert isinstance(action, Negotiated)
    assert action.heartbeat_s == heartbeat_s


def test_a_server_without_limits_takes_any_and_channel_numbers_still_fit_their_field() -> None:
    machine = handshake(frame_max=0, channel_max=0)
    assert after(*BEFORE_TUNE_OK, tune_ok(0, 0, 0), machine=machine) == [
        Negotiated(frame_max=0, heartbeat_s=0, channel_max=65535)
    ]


def test_opening_a_vhost_tells_who_came_and_then_the_client() -> None:
    abilities = Table(
        [("consumer_cancel_notify", Field("t", True)), ("connection.blocked", Field("t", False))]
    )
    properties = Table(
        [("capabilities", Field("F", abilities)), ("connection_name", longstr("mine"))]
    )
    machine = handshake()
    opened, answer = after(
        HEADER_SENT, start_ok(properties=properties), tune_ok(), open_(), machine=machine
    )
    assert isinstance(opened, Opened)
    assert (opened.vhost, opened.user, opened.mechanism) == ("/", "guest", "PLAIN")
    assert (opened.client_properties, opened.connection_name) == (properties, "mine")
    assert opened.capabilities.consumer_cancel_notify
    assert not opened.capabilities.connection_blocked
    assert not opened.capabilities.authentication_failure_close
    assert isinstance(answer, SendMethod)
    assert isinstance(answer.method, Connection.OpenOk)
    assert machine.state is State.RUNNING


@pytest.mark.parametrize(
    ("vhost", "text"),
    [("nope", "NOT_ALLOWED - vhost nope not found"), ("", "NOT_ALLOWED - vhost  not found")],
)
def test_t014_a_missing_vhost_is_told(vhost: str, text: str) -> None:
    assert told(after(*BEFORE_OPEN, open_(vhost))) == (text, 10, 40)


def test_t015_a_vhost_without_permission_is_told() -> None:
    assert told(after(*BEFORE_OPEN, open_("forbidden"))) == (
        "NOT_ALLOWED - access to vhost 'forbidden' refused for user 'guest'", 10, 40,
    )  # fmt: skip


CHANNEL_OPEN: Event = StrayFrame(1, b"\0\x14\0\x0a\0")


@pytest.mark.parametrize("before", [BEFORE_START_OK, BEFORE_TUNE_OK])
def test_t019_a_channel_before_tuning_is_over_ends_in_silence(before: tuple[Event, ...]) -> None:
    seconds, reason = silent(after(*before, CHANNEL_OPEN))
    assert seconds == 3
    assert reason == "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"


def test_t019_a_channel_before_the_vhost_is_open_is_an_unexpected_frame() -> None:
    assert told(after(*BEFORE_OPEN, CHANNEL_OPEN)) == (
        "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", 0, 0,
    )  # fmt: skip


def test_a_long_unexpected_frame_shows_its_first_octets_only() -> None:
    assert told(after(*BEFORE_OPEN, StrayFrame(3, b"x" * 20))) == (
        'UNEXPECTED_FRAME - type 3, first 16 octets = <<"xxxxxxxxxxxxxxxx">>', 0, 0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (BEFORE_START_OK, open_()),
        (BEFORE_START_OK, tune_ok()),
        (BEFORE_START_OK, MethodReceived(Connection.Close(200, "bye", 0, 0))),
        (BEFORE_TUNE_OK, open_()),
        (BEFORE_TUNE_OK, start_ok()),
    ],
)
def test_methods_out_of_order_before_tuning_is_over_end_in_silence(
    before: tuple[Event, ...], event: Event
) -> None:
    seconds, reason = silent(after(*before, event))
    assert seconds == 3
    assert "CHANNEL_ERROR - unexpected method in connection state " in reason


@pytest.mark.parametrize(
    ("before", "event", "state", "ids"),
    [
        (BEFORE_OPEN, tune_ok(), "opening", (10, 31)),
        (BEFORE_OPEN, MethodReceived(Connection.Close(200, "bye", 0, 0)), "opening", (10, 50)),
        (BEFORE_OPEN, MethodReceived(Channel.Open()), "opening", (20, 10)),
        (RUNNING, open_(), "running", (10, 40)),
        (RUNNING, start_ok(), "running", (10, 11)),
        (RUNNING, MethodReceived(Connection.Tune()), "running", (10, 30)),
    ],
)
def test_methods_out_of_order_later_are_told(
    before: tuple[Event, ...], event: Event, state: str, ids: tuple[int, int]
) -> None:
    text = f"CHANNEL_ERROR - unexpected method in connection state {state}"
    assert told(after(*before, event)) == (text, *ids)


def test_an_unreadable_frame_is_told_only_to_whom_we_talk() -> None:
    broken = UnreadableFrame(frame_error("cannot decode <<1>>"), 10, 40)
    assert silent(after(*BEFORE_START_OK, broken)) == (3, "FRAME_ERROR - cannot decode <<1>>")
    assert told(after(*BEFORE_OPEN, broken)) == ("FRAME_ERROR - cannot decode <<1>>", 10, 40)


@pytest.mark.parametrize("before", [(), BEFORE_START_OK, BEFORE_TUNE_OK, BEFORE_OPEN])
def test_a_handshake_that_takes_too_long_is_cut_off_at_once(before: tuple[Event, ...]) -> None:
    seconds, reason = silent(after(*before, Timeout()))
    assert seconds == 0
    assert reason.startswith("handshake timeout")


def test_the_timeout_means_nothing_once_the_vhost_is_open() -> None:
    assert after(*RUNNING, Timeout()) == []


def test_nothing_is_answered_after_the_end() -> None:
    machine = handshake()
    after(HEADER_SENT, open_(), machine=machine)
    assert after(start_ok(), tune_ok(), open_(), Timeout(), machine=machine) == []


def test_an_error_of_the_vhost_check_other_than_530_keeps_its_code() -> None:
    def dead(_user: str, vhost: str) -> None:
        raise HardError(541, "INTERNAL_ERROR", f"access to vhost '{vhost}' refused: down")

    machine = Handshake(HandshakeSettings(server_properties("test")), authenticate, dead)
    text, *ids = told(after(*BEFORE_OPEN, open_(), machine=machine))
    assert text == "INTERNAL_ERROR - access to vhost '/' refused: down"
    assert ids == [10, 40]
