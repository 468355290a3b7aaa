from __future__ import annotations

import pytest

from warren.flow.states import FlowRecord, Stage, connection_state, diagnose, state_of


def held_until(now_ms: int) -> FlowRecord:
    record = FlowRecord()
    record.hold(Stage.STORE)
    record.release(now_ms)
    return record


def test_what_was_never_held_is_running() -> None:
    assert state_of(None, 0) == "running"
    assert state_of(FlowRecord(), 0) == "running"


def test_a_channel_or_queue_shows_flow_for_a_second() -> None:
    record = FlowRecord()
    record.hold(Stage.QUEUE)
    assert state_of(record, 10**9) == "flow"
    record.release(5_000)
    assert state_of(record, 5_999) == "flow"
    assert state_of(record, 6_000) == "running"


def test_a_connection_shows_flow_for_five_seconds() -> None:
    record = held_until(5_000)
    assert connection_state(record, False, False, 9_999) == "flow"
    assert connection_state(record, False, False, 10_000) == "running"


def test_a_record_knows_who_held_it() -> None:
    record = FlowRecord()
    assert record.stage is None
    record.hold(Stage.QUEUE)
    record.release(0)
    assert record.stage is Stage.QUEUE


def test_letting_go_of_what_is_not_held_is_no_event() -> None:
    record = FlowRecord()
    record.release(5_000)
    assert state_of(record, 5_000) == "running"


@pytest.mark.parametrize(
    ("is_stopped", "has_alarm", "state"),
    [
        (False, False, "running"),
        (False, True, "blocking"),
        (True, True, "blocked"),
        (True, False, "blocked"),
    ],
)
def test_alarms_show_whether_anything_was_published(
    is_stopped: bool, has_alarm: bool, state: str
) -> None:
    assert connection_state(FlowRecord(), is_stopped, has_alarm, 0) == state


def test_an_alarm_outweighs_flow() -> None:
    assert connection_state(held_until(0), False, True, 0) == "blocking"


@pytest.mark.parametrize(
    ("flows", "place"),
    [
        ((True, False, False), "the channels: CPU"),
        ((True, True, False), "the queues: CPU, or their index: disk"),
        ((True, True, True), "the message store: disk"),
    ],
)
def test_the_last_stage_in_flow_is_just_before_the_bottleneck(
    flows: tuple[bool, bool, bool], place: str
) -> None:
    assert diagnose(*flows).startswith(place)


def test_without_flow_there_is_nothing_to_say() -> None:
    assert diagnose(False, False, False) == ""
