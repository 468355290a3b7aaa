"""Counters and the rates made of them."""

from __future__ import annotations

import pytest

from warren.model.counters import (
    EXCHANGE_COUNTERS,
    MESSAGE_COUNTERS,
    ExchangeCounters,
    MessageCounters,
    QueueLengths,
    TrafficCounters,
)


def rate_of(counters: MessageCounters, name: str) -> float:
    return 0.0 if counters.rates is None else counters.rates[MESSAGE_COUNTERS.index(name)]


@pytest.mark.parametrize("name", MESSAGE_COUNTERS)
def test_every_counter_has_a_name_a_value_and_a_place_in_sums(name: str) -> None:
    one, total = MessageCounters(), MessageCounters()
    setattr(one, name, 7)
    total.add(one)
    total.add(one)
    values = dict(zip(MESSAGE_COUNTERS, total.values(), strict=True))
    assert values == dict.fromkeys(MESSAGE_COUNTERS, 0) | {name: 14}
    total.reset()
    assert not any(total.values())


def test_a_rate_is_the_growth_since_the_last_sample() -> None:
    counters = MessageCounters()
    counters.publish = 100
    counters.sample(5.0)
    assert rate_of(counters, "publish") == 20.0
    counters.publish += 10
    counters.ack += 5
    counters.sample(5.0)
    assert rate_of(counters, "publish") == 2.0
    assert rate_of(counters, "ack") == 1.0


def test_what_rests_has_no_rates() -> None:
    counters = MessageCounters()
    counters.sample(5.0)
    assert counters.rates is None
    counters.deliver += 1
    counters.sample(5.0)
    assert rate_of(counters, "deliver") == 0.2
    counters.sample(5.0)
    assert counters.rates is None


def test_exchanges_have_rates_of_both_directions() -> None:
    counters = ExchangeCounters()
    counters.publish_in, counters.publish_out = 5, 10
    counters.sample(5.0)
    assert counters.rates == (1.0, 2.0)
    assert dict(zip(EXCHANGE_COUNTERS, counters.values(), strict=True)) == {
        "publish_in": 5,
        "publish_out": 10,
    }
    counters.sample(5.0)
    assert counters.rates is None


def test_a_queue_that_shrinks_has_a_negative_rate() -> None:
    lengths = QueueLengths()
    lengths.sample(10, 0, 5.0)
    lengths.sample(0, 5, 5.0)
    assert (lengths.ready_rate, lengths.unacked_rate) == (-2.0, 1.0)


def test_traffic_has_a_rate_each_way() -> None:
    traffic = TrafficCounters()
    traffic.sample(1_000, 500, 5.0)
    assert (traffic.receive_rate, traffic.send_rate) == (200.0, 100.0)
    traffic.sample(1_000, 500, 5.0)
    assert (traffic.receive_rate, traffic.send_rate) == (0.0, 0.0)


def test_what_rests_knows_for_how_long() -> None:
    counters = MessageCounters()
    counters.sample(5.0)
    assert counters.idle_s == 5.0
    counters.publish += 1
    assert counters.idle_s == 0
    counters.sample(5.0)
    assert counters.idle_s == 0
    counters.sample(5.0)
    counters.sample(5.0)
    assert counters.idle_s == 10.0
