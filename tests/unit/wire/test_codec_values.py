"""Property blocks and the small classes of the kernel."""

from __future__ import annotations

import struct
import sys
from types import ModuleType

import pytest

from warren.model.limits import TABLE_DEPTH_MAX
from wire_frames import described, route_key, short_string

EXPIRATION_NONE = -1
EXPIRATION_ODD = -2

ALL_TYPES = {
    b"t": b"\x01",
    b"b": b"\xff",
    b"B": b"\xff",
    b"s": b"\xff\xfe",
    b"u": b"\xff\xfe",
    b"I": bytes(4),
    b"i": bytes(4),
    b"l": bytes(8),
    b"L": bytes(8),
    b"f": bytes(4),
    b"d": bytes(8),
    b"D": bytes(5),
    b"T": bytes(8),
    b"V": b"",
    b"S": b"\x00\x00\x00\x03abc",
    b"x": b"\x00\x00\x00\x02\x00\xff",
    b"A": b"\x00\x00\x00\x04t\x00t\x01",
    b"F": b"\x00\x00\x00\x04\x01kt\x01",
}


def long_string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def headers(table: bytes) -> bytes:
    return b"\x20\x00" + long_string(table)


def nested(letter: bytes, depth: int) -> bytes:
    """A header table whose one value is nested so many levels deep."""
    data = b""
    for _ in range(depth):
        key = b"\x01k" if letter == b"F" else b""
        data = key + letter + long_string(data)
    return data if letter == b"F" else b"\x01k" + data


class TestPropertyBlock:
    def test_an_empty_block_says_nothing(self, kernel: ModuleType) -> None:
        block = kernel.PropertyBlock(b"\x00\x00")
        assert described(block) == (
            b"\x00\x00", 0, False, False, 0, EXPIRATION_NONE, False, "PropertyBlock"
        )  # fmt: skip

    def test_all_properties_together_are_walked_to_the_end(self, kernel: ModuleType) -> None:
        raw = b"".join(
            [
                b"\xff\xfc",
                short_string(b"text/plain"),
                short_string(b"gzip"),
                long_string(b"\x01kt\x01"),
                b"\x02",
                b"\x07",
                short_string(b"correlation"),
                short_string(b"reply"),
                short_string(b"60000"),
                short_string(b"id"),
                bytes(8),
                short_string(b"type"),
                short_string(b"guest"),
                short_string(b"app"),
                short_string(b""),
            ]
        )
        block = kernel.PropertyBlock(raw)
        assert not block.is_malformed
        assert (block.flags, block.persistent, block.priority) == (0xFFFC, True, 7)
        assert (block.expiration_ms, block.needs_vetting) == (60_000, True)
        assert kernel.PropertyBlock(raw + b"x").is_malformed
        for length in range(len(raw)):
            assert kernel.PropertyBlock(raw[:length]).is_malformed, length

    def test_the_two_unused_flags_are_ignored(self, kernel: ModuleType) -> None:
        block = kernel.PropertyBlock(b"\x10\x03\x02")
        assert (block.is_malformed, block.persistent) == (False, True)

    @pytest.mark.parametrize("mode", [0, 1, 2, 3, 255])
    def test_only_delivery_mode_two_is_persistent(self, kernel: ModuleType, mode: int) -> None:
        assert kernel.PropertyBlock(b"\x10\x00" + bytes([mode])).persistent is (mode == 2)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (b"0", 0),
            (b"007", 7),
            (b"000000000007", 7),
            (b"315360000000", 315_360_000_000),
            (b"315360000001", EXPIRATION_ODD),
            (b"999999999999", EXPIRATION_ODD),
            (b"0000000000007", EXPIRATION_ODD),
            (b"", EXPIRATION_ODD),
            (b"-1", EXPIRATION_ODD),
            (b"+1", EXPIRATION_ODD),
            (b" 1", EXPIRATION_ODD),
            (b"1s", EXPIRATION_ODD),
            ("\N{ARABIC-INDIC DIGIT ONE}".encode(), EXPIRATION_ODD),
        ],
    )
    def test_an_expiration_is_a_plain_number_or_the_channel_must_look(
        self, kernel: ModuleType, text: bytes, expected: int
    ) -> None:
        block = kernel.PropertyBlock(b"\x01\x00" + short_string(text))
        assert (block.expiration_ms, block.is_malformed) == (expected, False)
        assert block.needs_vetting is (expected == EXPIRATION_ODD)

    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            (headers(b"\x02CCA\x00\x00\x00\x00"), True),
            (headers(b"\x03BCCS\x00\x00\x00\x00"), True),
            (headers(b"\x01kt\x01\x02CCV"), True),
            (headers(b"\x02ccV\x04BCC2V\x01CV"), False),
            (headers(b"\x01kF\x00\x00\x00\x04\x02CCV"), False),
            (headers(b"\x01kS\x00\x00\x00\x04\x02CCV"), False),
            (b"\x02\x00" + short_string(b"amq.rabbitmq.reply-to"), True),
            (b"\x02\x00" + short_string(b"amq.rabbitmq.reply-to.x"), False),
            (b"\x02\x00" + short_string(b"amq.rabbitmq.reply-t"), False),
            (b"\x04\x00" + short_string(b"amq.rabbitmq.reply-to"), False),
            (b"\x00\x10" + short_string(b""), True),
            (b"\x00\x08" + short_string(b"guest"), False),
        ],
    )
    def test_what_the_channel_must_look_at_is_marked(
        self, kernel: ModuleType, raw: bytes, expected: bool
    ) -> None:
        block = kernel.PropertyBlock(raw)
        assert (block.is_malformed, block.needs_vetting) == (False, expected)

    def test_every_type_of_field_is_known_and_measured(self, kernel: ModuleType) -> None:
        for letter, value in ALL_TYPES.items():
            assert not kernel.PropertyBlock(headers(b"\x03key" + letter + value)).is_malformed
            cut_short = headers(b"\x03key" + (letter + value)[:-1])
            assert kernel.PropertyBlock(cut_short).is_malformed, letter

    def test_no_other_letter_is_a_type(self, kernel: ModuleType) -> None:
        for octet in set(range(256)) - {letter[0] for letter in ALL_TYPES}:
            assert kernel.PropertyBlock(headers(b"\x00" + bytes([octet]) + bytes(8))).is_malformed

    @pytest.mark.parametrize(
        "table",
        [
            b"\x05ab",
            b"\x02ab",
            b"\x01kS\xff\xff\xff\xff",
            b"\x01kA\x00\x00\x00\x01t",
            b"\x01kF\x00\x00\x00\x03\x01kZ",
            b"\x01kx\x00\x00\x00",
        ],
    )
    def test_a_table_that_does_not_add_up_is_malformed(
        self, kernel: ModuleType, table: bytes
    ) -> None:
        assert kernel.PropertyBlock(headers(table)).is_malformed

    @pytest.mark.parametrize("letter", [b"F", b"A"])
    def test_nesting_has_a_bound(self, kernel: ModuleType, letter: bytes) -> None:
        deepest = TABLE_DEPTH_MAX - 1  # the header table itself is the first level
        assert not kernel.PropertyBlock(headers(nested(letter, deepest))).is_malformed
        assert kernel.PropertyBlock(headers(nested(letter, deepest + 1))).is_malformed

    def test_nesting_beyond_any_stack_is_only_malformed(self, kernel: ModuleType) -> None:
        assert kernel.PropertyBlock(headers(nested(b"A", 20_000))).is_malformed

    @pytest.mark.parametrize("layout", [">f", ">d"])
    def test_a_float_must_be_a_finite_number(self, kernel: ModuleType, layout: str) -> None:
        largest = 3.4028234663852886e38 if layout == ">f" else sys.float_info.max
        for value in (0.0, -0.0, 1.5, largest, -largest):
            field = layout[1].encode() + struct.pack(layout, value)
            assert not kernel.PropertyBlock(headers(b"\x01k" + field)).is_malformed, value
        for value in (float("inf"), float("-inf"), float("nan")):
            field = layout[1].encode() + struct.pack(layout, value)
            assert kernel.PropertyBlock(headers(b"\x01k" + field)).is_malformed, value

    def test_it_is_made_of_bytes_and_nothing_else(self, kernel: ModuleType) -> None:
        with pytest.raises(TypeError):
            kernel.PropertyBlock(None)


def test_messages_begin_with_what_they_were_given(kernel: ModuleType) -> None:
    properties = kernel.PropertyBlock(b"\x00\x00")
    message = kernel.Message(route_key(), properties, b"body")
    assert (message.route_key, message.body) == (route_key(), b"body")
    assert message.properties is properties
    assert (message.channel, message.flags) == (0, 0)
    assert kernel.Message(route_key(), properties, b"", 3).flags == 3


def test_a_queued_message_begins_ready_and_never_delivered(kernel: ModuleType) -> None:
    message = kernel.Message(route_key(), kernel.PropertyBlock(b"\x00\x00"), b"")
    queued = kernel.QueuedMessage(message, 2**63, 5)
    assert (queued.message, queued.sequence, queued.expires_at_ms) == (message, 2**63, 5)
    assert (queued.redelivered, queued.holder) == (False, None)
    assert (queued.delivery_count, queued.delivered_at_ms) == (0, 0)
    assert (queued.state, queued.publisher, queued.publisher_sequence) == (0, None, 0)
    assert (queued.store_file, queued.store_offset, queued.size) == (-1, 0, 0)


def test_two_equal_messages_are_still_two(kernel: ModuleType) -> None:
    properties = kernel.PropertyBlock(b"\x00\x00")
    first, second = (kernel.Message(route_key(), properties, b"") for _ in range(2))
    assert first != second
    assert len({first, second}) == 2
