"""Heartbeats against a clock that the test turns by hand."""

from __future__ import annotations

import pytest

from warren.protocol.heartbeat import Heartbeat, HeartbeatAction, PeerIsGone, SendHeartbeat

HEARTBEAT_BYTES = 8


class Line:
    """A connection's counters, and visits at every period; our own heartbeats count as sent."""

    def __init__(self, interval_s: int) -> None:
        self.now_ms = 50_000
        self.received = 100
        self.sent = 500
        self.heartbeat = Heartbeat(interval_s, self.now_ms)

    def visit(self, is_reading: bool = True) -> list[HeartbeatAction]:
        self.now_ms += self.heartbeat.period_ms
        actions = self.heartbeat.tick(self.now_ms, self.received, self.sent, is_reading)
        self.sent += HEARTBEAT_BYTES * actions.count(SendHeartbeat())
        return actions


def test_a_visit_is_due_twice_per_interval() -> None:
    assert Heartbeat(60, 0).period_ms == 30_000
    assert Heartbeat(1, 0).period_ms == 500


def test_t016_the_first_visit_sends_a_heartbeat() -> None:
    assert Line(1).visit() == [SendHeartbeat()]


def test_t016_an_idle_server_sends_one_every_half_interval() -> None:
    line = Line(10)
    for _ in range(3):
        line.received += 1
        assert line.visit() == [SendHeartbeat()]


def test_outgoing_data_makes_a_heartbeat_needless_for_half_an_interval() -> None:
    line = Line(10)
    line.visit()
    line.received += 1
    line.sent += 1
    assert line.visit() == []
    line.received += 1
    assert line.visit() == [SendHeartbeat()]


def silence_until_gone_ms(line: Line) -> int:
    """From the last byte, which came right after a visit: the longest a peer can go unnoticed."""
    last_byte_ms = line.now_ms
    line.received += 1
    while True:
        for action in line.visit():
            if isinstance(action, PeerIsGone):
                return line.now_ms - last_byte_ms
        assert line.now_ms - last_byte_ms < 100_000, "a silent peer was never noticed"


def test_t017_a_silent_peer_is_gone_after_two_to_three_intervals() -> None:
    line = Line(4)
    line.visit()
    assert 2 * 4_000 <= silence_until_gone_ms(line) <= 3 * 4_000


def test_t017_the_log_says_what_was_missed() -> None:
    line = Line(7)
    gone = [a for _ in range(6) for a in line.visit() if isinstance(a, PeerIsGone)]
    assert gone[0] == PeerIsGone("missed heartbeats from client, timeout: 7s")


def test_a_single_byte_now_and_then_keeps_the_peer_alive() -> None:
    line = Line(2)
    for visit in range(40):
        line.received += visit % 4 == 0
        assert not any(isinstance(action, PeerIsGone) for action in line.visit())


def test_a_peer_we_do_not_read_from_cannot_be_missed() -> None:
    line = Line(2)
    line.visit()
    for _ in range(20):
        assert line.visit(is_reading=False) == [SendHeartbeat()]
    assert line.visit() == [SendHeartbeat()], "its time starts when we read again"


def test_t018_an_interval_of_zero_has_no_heartbeat_at_all() -> None:
    with pytest.raises(AssertionError):
        Heartbeat(0, 0)
