"""Counting: percentiles that are close enough, and nothing lost or doubled unseen."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.perf.tally import DeliveryTally, Histogram, SequenceSet
from warren.wire.codec import Delivery, Message, PropertyBlock

STEP_ERROR = 1 / 64


def delivery(sequence: int, producer: int = 0, group: int = 0, stamp_ns: int = 1) -> Delivery:
    stamp = struct.pack(">QQ", stamp_ns, producer << 48 | sequence)
    return carrying(stamp + bytes(84), str(group))


def carrying(body: bytes, consumer_tag: str = "0", redelivered: bool = False) -> Delivery:
    message = Message(b"", PropertyBlock(b"\x00\x00"), body)
    return Delivery(1, consumer_tag.encode(), 1, redelivered, 0, message)


@given(st.lists(st.integers(0, 10**13), min_size=1, max_size=200), st.sampled_from([1, 50, 99]))
def test_a_percentile_is_within_a_step_of_the_exact_one(values: list[int], percent: int) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(-(-len(values) * percent // 100), 1) - 1]
    assert histogram.percentile(percent) == pytest.approx(exact, rel=STEP_ERROR, abs=0.5)
    assert histogram.highest == max(values)


def test_merged_histograms_know_what_both_knew() -> None:
    one, other = Histogram(), Histogram()
    one.add(10)
    other.add(30)
    other.add(20)
    one.merge(other)
    assert (one.count, one.highest, one.percentile(50)) == (3, 30, 20)


def test_an_empty_histogram_says_so() -> None:
    assert Histogram().percentile(99) == -1


@given(st.lists(st.integers(0, 100_000)))
def test_a_sequence_set_holds_what_was_added(numbers: list[int]) -> None:
    numbers_set, model = SequenceSet(), set[int]()
    for number in numbers:
        assert numbers_set.add(number) == (number not in model)
        model.add(number)
    assert numbers_set.size == len(model)
    assert numbers_set.as_integer() == sum(1 << number for number in model)


def test_a_message_is_a_duplicate_when_any_consumer_had_it() -> None:
    shared: dict[tuple[int, int], SequenceSet] = {}
    one, other = DeliveryTally(shared), DeliveryTally(shared)
    one.record([delivery(0), delivery(1), delivery(1)], 10, 1)
    other.record([delivery(1), delivery(2), delivery(0, producer=1)], 10, 1)
    assert (one.fresh, one.duplicates) == (2, 1)
    assert (other.fresh, other.duplicates) == (2, 1)


def test_each_queue_of_a_fan_out_has_its_own_copy() -> None:
    tally = DeliveryTally({})
    tally.record([delivery(0, group=0), delivery(0, group=1), delivery(0, group=1)], 10, 2)
    assert (tally.fresh, tally.duplicates, tally.consumed, tally.bytes) == (2, 1, 3, 300)


def test_a_body_too_short_for_a_stamp_is_new_and_has_no_latency() -> None:
    tally = DeliveryTally({})
    tally.record([carrying(b""), carrying(b"fifteen bytes..", redelivered=True)], 10, 1)
    assert (tally.fresh, tally.duplicates, tally.redelivered, tally.bytes) == (2, 0, 1, 15)
    assert tally.latency.count == 0


def test_stamps_may_use_all_their_bits() -> None:
    shared: dict[tuple[int, int], SequenceSet] = {}
    tally = DeliveryTally(shared)
    tally.record([delivery(8, producer=0xFFFF, stamp_ns=2**63 + 5)], 2**63 + 7, 1)
    assert shared[0, 0xFFFF].as_integer() == 1 << 8
    assert tally.latency.highest == 2


def test_latency_and_the_longest_silence_are_measured_from_the_stamps() -> None:
    tally = DeliveryTally({})
    tally.record([delivery(0, stamp_ns=1_000)], 1_050, 1)
    tally.record([delivery(1, stamp_ns=1_000)], 1_250, 1)
    tally.record([delivery(2, stamp_ns=9_999)], 1_260, 1)  # from a clock ahead of ours
    assert (tally.gap_ns, tally.gap_at_ns) == (200, 1_050)
    assert (tally.latency.count, tally.latency.highest) == (2, 250)
