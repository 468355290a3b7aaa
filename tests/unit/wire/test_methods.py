"""Control methods: RabbitMQ's bytes, RabbitMQ's complaints."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pamqp.frame import marshal

from field_strategies import tables
from warren.model.errors import HardError
from warren.model.fields import EMPTY_TABLE, Field, Table
from warren.wire.methods import (
    Access,
    Method,
    decode_method,
    encode_method,
    ids_of,
    method_ids,
)

CATALOGUE = [*commands.INDEX_MAPPING.values(), Access.Request, Access.RequestOk]
QOS = encode_method(commands.Basic.Qos(0, 10, False))


def declare(name: bytes, arguments: bytes = b"\x00\x00\x00\x00") -> bytes:
    """queue.declare with raw bytes for its name and arguments."""
    return struct.pack(">HHHB", 50, 10, 0, len(name)) + name + b"\x00" + arguments


def refusal(payload: bytes) -> HardError:
    with pytest.raises(HardError) as caught:
        decode_method(payload)
    return caught.value


@pytest.mark.filterwarnings("ignore:This command is deprecated")
@pytest.mark.parametrize("method", CATALOGUE, ids=lambda method: method.name)
def test_every_method_with_its_defaults_comes_back_the_same(method: type[Method]) -> None:
    payload = encode_method(method())
    decoded = decode_method(payload)
    assert type(decoded) is method
    assert encode_method(decoded) == payload
    assert method_ids(payload) == ids_of(decoded) == divmod(method.index, 65_536)


@pytest.mark.parametrize(
    "method",
    [
        commands.Queue.Declare(0, "q", False, True, False, True, False, {}),
        commands.Exchange.Declare(0, "x", "topic", False, True, False, True, True, {}),
        commands.Basic.Nack(1 << 40, True, False),
        commands.Connection.Tune(2047, 131_072, 60),
        commands.Connection.Close(320, "CONNECTION_FORCED - bye", 50, 10),
        commands.Basic.GetOk(7, True, "x", "k", 3),
        commands.Connection.UpdateSecret("new", "because"),
    ],
    ids=lambda method: method.name,
)
def test_bytes_are_those_pamqp_writes(method: Method) -> None:
    frame = marshal(method, 1)
    assert encode_method(method) == frame[7:-1]


@given(tables(), st.text(max_size=60), st.booleans(), st.booleans())
def test_arguments_keep_their_types(
    arguments: Table, name: str, durable: bool, exclusive: bool
) -> None:
    sent = commands.Queue.Declare(0, "", False, durable, exclusive, False, False)
    sent.queue, sent.arguments = name, arguments  # type: ignore[assignment]
    got = decode_method(encode_method(sent))
    assert dict(got) == dict(sent)


@given(st.binary(max_size=40), st.sampled_from(CATALOGUE))
def test_arbitrary_arguments_are_read_or_end_the_connection(
    octets: bytes, method: type[Method]
) -> None:
    payload = struct.pack(">I", method.index) + octets
    try:
        decoded = decode_method(payload)
    except HardError:
        return
    assert dict(decode_method(encode_method(decoded))) == dict(decoded)


def test_plain_mappings_and_missing_values_can_be_written() -> None:
    consume = commands.Basic.Consume(queue="q", arguments={"x-priority": 5})
    consume.consumer_tag = None
    decoded = decode_method(encode_method(consume))
    assert decoded["arguments"] == Table([("x-priority", Field("l", 5))])
    assert decoded["consumer_tag"] == ""


def test_sasl_data_and_secrets_are_bytes_and_other_long_strings_text() -> None:
    start_ok = commands.Connection.StartOk({}, "PLAIN", "", "en_US")
    start_ok.response = b"\x00guest\xff"  # type: ignore[assignment]
    assert decode_method(encode_method(start_ok))["response"] == b"\x00guest\xff"
    start = decode_method(encode_method(commands.Connection.Start(mechanisms="PLAIN AMQPLAIN")))
    assert start["mechanisms"] == "PLAIN AMQPLAIN"
    secret = decode_method(encode_method(commands.Connection.UpdateSecret("s", "r")))
    assert secret["new_secret"] == b"s"


def test_nested_client_properties_are_tables() -> None:
    properties = {"capabilities": {"basic.nack": True}}
    sent = commands.Connection.StartOk(properties)
    assert decode_method(encode_method(sent))["client_properties"] == Table(
        [("capabilities", Field("F", Table([("basic.nack", Field("t", True))])))]
    )


def test_bits_beyond_the_known_ones_are_ignored() -> None:
    assert decode_method(QOS[:-1] + b"\xff")["global_"] is True


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (struct.pack(">HH", 60, 10), "cannot decode <<>>"),
        (QOS[:-1], "cannot decode <<0,0,0,0,0,10>>"),
        (QOS + b"junk", "cannot decode <<0,0,0,0,0,10,0,106,117,110,107>>"),
        (struct.pack(">HH", 20, 41) + b"x", "cannot decode <<120>>"),
        (struct.pack(">HHH", 50, 10, 0) + b"\x20abc", "cannot decode <<0,0,32,97,98,99>>"),
        (declare(b"q", b"\x00\x00\x00\x09\x01kV"), None),
    ],
    ids=["empty", "last octet missing", "trailing bytes", "no arguments expected",
         "short string beyond the frame", "table beyond the frame"],
)  # fmt: skip
def test_arguments_that_do_not_fill_the_frame_are_quoted_back(
    payload: bytes, text: str | None
) -> None:
    error = refusal(payload)
    assert error.code == 501
    assert error.explanation == text or (text is None and "cannot decode <<" in error.explanation)


def test_a_long_quotation_is_cut_to_a_short_string() -> None:
    text = refusal(struct.pack(">HHH", 50, 10, 0) + b"\x20" + bytes(range(100))).reply_text
    assert text.startswith("FRAME_ERROR - cannot decode <<0,0,32,0,")
    assert text.endswith("...")
    assert len(text) == 255


def test_a_name_that_is_not_utf8_is_no_method_s_fault() -> None:
    error = refusal(declare(b"\xff\xfe"))
    assert error.reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"
    assert error.method_ids == (0, 0)


def test_a_length_that_lies_is_reported_before_the_bad_name() -> None:
    payload = struct.pack(">HHH", 50, 10, 0) + b"\x02\xff\xfe"
    assert refusal(payload).explanation == "cannot decode <<0,0,2,255,254>>"


@pytest.mark.parametrize("ids", [(99, 10), (50, 99), (10, 99), (60, 200)])
def test_unknown_methods_end_the_connection(ids: tuple[int, int]) -> None:
    error = refusal(struct.pack(">HH", *ids))
    assert error.code == 503
    assert error.explanation == f"unknown method {ids[0]}.{ids[1]}"


def test_a_table_of_unknown_type_ends_the_connection() -> None:
    assert refusal(declare(b"q", b"\x00\x00\x00\x03\x01kZ")).code == 502


def test_a_text_too_long_for_a_short_string_is_not_written() -> None:
    with pytest.raises(ValueError, match="255 bytes"):
        encode_method(commands.Basic.ConsumeOk("t" * 256))


def test_the_old_ticket_can_still_be_asked_for() -> None:
    request = decode_method(struct.pack(">HHB", 30, 10, 5) + b"/data" + b"\x1d")
    assert dict(request) == {
        "realm": "/data", "exclusive": True, "passive": False, "active": True, "write": True,
        "read": True,
    }  # fmt: skip
    assert encode_method(Access.RequestOk()) == struct.pack(">HHH", 30, 11, 1)


def test_empty_arguments_are_an_empty_table() -> None:
    assert decode_method(declare(b"q"))["arguments"] == EMPTY_TABLE
