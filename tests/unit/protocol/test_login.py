"""Logging in: mechanisms, refusals, and what the log may learn."""

from __future__ import annotations

import pytest
from pamqp.commands import Connection

from negotiating import (
    BEFORE_TUNE_OK,
    HEADER_SENT,
    after,
    handshake,
    open_vhost,
    sent,
    silent,
    start_ok,
    told,
)
from warren.model.errors import LoginRefused
from warren.model.fields import Field, Table, longstr
from warren.protocol.capabilities import server_properties
from warren.protocol.handshake import Handshake, HandshakeSettings
from warren.protocol.negotiation import (
    CloseConnection,
    Event,
)
from warren.protocol.sasl import Credentials, External, Plain
from warren.wire.tables import encode_table

CAPABLE = Table(
    [("capabilities", Field("F", Table([("authentication_failure_close", Field("t", True))])))]
)
LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile."
)


def test_t004_a_good_plain_login_is_tuned() -> None:
    tune = sent(after(*BEFORE_TUNE_OK))
    assert isinstance(tune, Connection.Tune)
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)


def test_t005_a_bad_password_is_told_to_a_client_that_understands_it() -> None:
    actions = after(HEADER_SENT, start_ok(b"\0guest\0wrong", properties=CAPABLE))
    assert told(actions) == (LOGIN_REFUSED, 0, 0)
    (action,) = actions
    assert isinstance(action, CloseConnection)
    assert action.reason == "PLAIN login refused: user 'guest' - invalid credentials"


def test_t006_a_bad_password_is_met_with_three_seconds_of_silence_otherwise() -> None:
    seconds, reason = silent(after(HEADER_SENT, start_ok(b"\0guest\0wrong")))
    assert seconds == 3
    assert "user 'guest' - invalid credentials" in reason
    assert "wrong" not in reason


@pytest.mark.parametrize(
    "response", [b"garbage", b"x\0guest\0guest", b"\0guest\0gu\0est", b"", b"\0guest"]
)
def test_t007_a_malformed_plain_response_is_a_syntax_error(response: bytes) -> None:
    text, *ids = told(after(HEADER_SENT, start_ok(response)))
    assert text.startswith("SYNTAX_ERROR - response <<")
    assert text.endswith(">> invalid")
    assert ids == [10, 11]


def test_the_log_never_learns_what_a_malformed_response_held() -> None:
    (action,) = after(HEADER_SENT, start_ok(b"guest\0secret"))
    assert isinstance(action, CloseConnection)
    assert action.reason == "unreadable PLAIN response"


def amqplain(*fields: tuple[str, Field]) -> Event:
    return start_ok(encode_table(Table(fields))[4:], "AMQPLAIN")


def test_t008_an_amqplain_login_is_accepted() -> None:
    actions = after(
        HEADER_SENT, amqplain(("LOGIN", longstr("guest")), ("PASSWORD", longstr("guest")))
    )
    assert isinstance(sent(actions), Connection.Tune)


@pytest.mark.parametrize(
    "event",
    [
        amqplain(("LOGIN", longstr("guest"))),
        amqplain(("PASSWORD", longstr("guest"))),
        amqplain(("LOGIN", Field("I", 5)), ("PASSWORD", longstr("guest"))),
    ],
)
def test_t008_amqplain_without_both_strings_is_a_syntax_error(event: Event) -> None:
    text, *_ = told(after(HEADER_SENT, event))
    assert text == "SYNTAX_ERROR - AMQPLAIN auth info is missing LOGIN or PASSWORD field"


def test_t008_amqplain_that_is_no_table_is_a_syntax_error() -> None:
    text, *_ = told(after(HEADER_SENT, start_ok(b"\1\2", "AMQPLAIN")))
    assert text == "SYNTAX_ERROR - response <<1,2>> invalid"


def test_t009_an_unknown_mechanism_ends_in_silence() -> None:
    assert silent(after(HEADER_SENT, start_ok(mechanism="NOSUCH"))) == (
        3,
        "COMMAND_INVALID - unknown authentication mechanism 'NOSUCH'",
    )


def test_t009_a_mechanism_we_know_but_do_not_offer_is_invalid() -> None:
    machine = handshake(mechanisms=(Plain(),))
    assert silent(after(HEADER_SENT, start_ok(mechanism="AMQPLAIN"), machine=machine)) == (
        3,
        "COMMAND_INVALID - invalid authentication mechanism 'AMQPLAIN'",
    )


def test_t010_a_guest_from_afar_is_refused_like_a_bad_password() -> None:
    def only_local(_mechanism: str, credentials: Credentials) -> str:
        raise LoginRefused(f"user '{credentials.username}' can only connect via localhost")

    machine = Handshake(HandshakeSettings(server_properties("test")), only_local, open_vhost)
    actions = after(HEADER_SENT, start_ok(properties=CAPABLE), machine=machine)
    assert told(actions) == (LOGIN_REFUSED, 0, 0)
    (action,) = actions
    assert isinstance(action, CloseConnection)
    assert action.reason.endswith("user 'guest' can only connect via localhost")


def test_external_logs_in_whom_the_certificate_names_whatever_the_response_says() -> None:
    machine = handshake(mechanisms=(External("O=client"),))
    tune = sent(after(HEADER_SENT, start_ok(b"somebody", "EXTERNAL"), machine=machine))
    assert isinstance(tune, Connection.Tune)


def test_external_is_refused_with_its_reason_in_the_log_alone() -> None:
    machine = handshake(mechanisms=(External("", "no name found"),))
    step = start_ok(b"", "EXTERNAL", properties=CAPABLE)
    (action,) = after(HEADER_SENT, step, machine=machine)
    assert isinstance(action, CloseConnection)
    assert action.reason == "EXTERNAL login refused: no name found"
    assert "no name found" not in str(action.error)


def test_external_without_a_certificate_to_show_is_an_invalid_mechanism() -> None:
    step = start_ok(b"", "EXTERNAL", properties=CAPABLE)
    _, reason = silent(after(HEADER_SENT, step))
    assert reason == "COMMAND_INVALID - invalid authentication mechanism 'EXTERNAL'"
