"""From wrong bytes to the words of the close method: each text as RabbitMQ 3.10.8 answered it."""

from __future__ import annotations

from typing import Any

import pytest

from warren.model.errors import HardError, SoftError
from warren.wire.faults import error_of, method_of
from wire_frames import BODY, HEADER, HEARTBEAT, METHOD, body, frame, header, only, publish

FRAME_MAX = 131_072
MESSAGE_SIZE_MAX = 134_217_728
NOT_A_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
QUOTED_START = 'FRAME_ERROR - type 3, first 16 octets = <<"xxxxxxxxxxxxxxxx">>'
NOT_A_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"


@pytest.mark.parametrize(
    ("data", "code", "text", "ids"),
    [
        (publish() + header(weight=1), 505, NOT_A_HEADER, (60, 40)),
        (publish() + header(class_id=50, weight=1), 505, NOT_A_HEADER, (60, 40)),
        (
            publish() + header(class_id=50),
            505,
            "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
            (60, 40),
        ),
        (
            publish() + header(body_size=2) + publish(),
            505,
            "UNEXPECTED_FRAME - expected content body, got non content body frame instead",
            (60, 40),
        ),
        (header(), 505, NOT_A_METHOD, (0, 0)),
        (body(7, b"abc"), 505, NOT_A_METHOD, (0, 0)),
        (
            frame(HEADER, 1, b"\x00\x3c" + bytes(9)),
            501,
            "FRAME_ERROR - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0>>: unknown_frame",
            (0, 0),
        ),
        (
            header(0),
            505,
            "UNEXPECTED_FRAME - type 2, all octets = <<0,60,0,0,0,0,0,0,0,0,0,0,0,0>>",
            (0, 0),
        ),
        (body(0, b"abc"), 505, 'UNEXPECTED_FRAME - type 3, all octets = <<"abc">>', (0, 0)),
        (frame(HEARTBEAT, 1), 505, "UNEXPECTED_FRAME - type 8, all octets = <<>>", (0, 0)),
        (
            frame(HEARTBEAT, 0, b"x"),
            501,
            'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame',
            (0, 0),
        ),
        (
            publish() + header(body_size=20) + frame(BODY, 1, b"x" * 20, end=7),
            501,
            f"{QUOTED_START}: {{invalid_frame_end_marker,7}}",
            (0, 0),
        ),
        (
            frame(METHOD, 1, b"\x00\x3c\x00"),
            501,
            "FRAME_ERROR - type 1, all octets = <<0,60,0>>: unknown_frame",
            (0, 0),
        ),
        (
            frame(BODY, 1, bytes(FRAME_MAX + 1)),
            501,
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,131073,131064}",
            (0, 0),
        ),
    ],
)
def test_a_fault_closes_the_connection_with_the_words_of_rabbitmq(
    reader: Any, data: bytes, code: int, text: str, ids: tuple[int, int]
) -> None:
    fault = only(reader.feed(data))
    error = error_of(fault, FRAME_MAX, MESSAGE_SIZE_MAX)
    assert isinstance(error, HardError)
    assert (error.code, error.reply_text) == (code, text)
    assert method_of(fault) == ids


def test_malformed_properties_are_an_internal_error(reader: Any) -> None:
    fault = only(reader.feed(publish() + header(properties=b"\x80\x00\x05ab")))
    assert error_of(fault, FRAME_MAX, MESSAGE_SIZE_MAX).code == 541
    assert method_of(fault) == (0, 0)


@pytest.mark.parametrize(
    ("limit", "words"), [(134_217_728, "configured max size"), (536_870_912, "max size")]
)
def test_a_message_that_is_too_large_closes_only_its_channel(
    reader: Any, limit: int, words: str
) -> None:
    reader.message_size_max = limit
    fault = only(reader.feed(publish() + header(body_size=limit + 1)))
    error = error_of(fault, FRAME_MAX, limit)
    assert isinstance(error, SoftError)
    expected = f"PRECONDITION_FAILED - message size {limit + 1} is larger than {words} {limit}"
    assert error.reply_text == expected
    assert method_of(fault) == (60, 40)
