"""The log of groups: the leader's node, and no other, logs, counts and tells what happened."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from machine_world import NAME, group_on, view_of
from manual_clock import ManualClock
from warren.broker.events import Event, EventBus
from warren.cluster.group_events import GroupEvents
from warren.cluster.group_log import GroupLog
from warren.replication.group_record import GroupRecord


class Ears:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def wants(self, name: str) -> bool:
        return name.startswith("warren.mirror.")

    def hear(self, event: Event) -> None:
        self.heard.append(event.name.removeprefix("warren.mirror."))


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def log(ears: Ears) -> GroupLog:
    bus = EventBus(ManualClock())
    bus.listeners.append(ears)
    return GroupLog(view_of("bc"), GroupEvents(bus))


def promoted(before: GroupRecord, nodes: str, insync: str) -> GroupRecord:
    return replace(group_on(nodes, insync=insync), epoch=before.epoch + 1)


def test_the_leaders_node_tells_how_its_group_begins_grows_shrinks_and_ends(
    log: GroupLog, ears: Ears, caplog: pytest.LogCaptureFixture
) -> None:
    alone, both = group_on("a"), group_on("ab", insync="a")
    with caplog.at_level(logging.INFO):
        log.changed(NAME, None, alone, None)
        log.changed(NAME, alone, both, None)
        log.changed(NAME, both, group_on("ab"), None)
        log.changed(NAME, group_on("ab"), alone, None)
        log.removed(NAME, alone)
    assert ears.heard == ["begun", "added", "insync", "dropped", "insync", "ended"]
    text = caplog.text
    for line in ("queue is mirrored", "mirror is added", "copies in sync", "mirror is dropped"):
        assert line in text


def test_other_nodes_tell_nothing(log: GroupLog, ears: Ears) -> None:
    log.changed(NAME, None, group_on("ba"), None)
    log.removed(NAME, group_on("ba"))
    assert (ears.heard, log.promotions) == ([], 0)


def test_promotions_are_counted(log: GroupLog, ears: Ears) -> None:
    before = group_on("ba")
    log.changed(NAME, before, promoted(before, "a", "a"), None)
    assert (log.promotions, log.unsafe_promotions, log.messages_lost) == (1, 0, 0)
    assert "promoted" in ears.heard


@pytest.mark.parametrize(("lacking", "lost"), [(7, 7), (None, 0)])
def test_promotions_of_unsynchronised_mirrors_are_counted_with_what_was_lost(
    log: GroupLog, lacking: int | None, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = group_on("ba", insync="b")
    log.changed(NAME, before, promoted(before, "a", "a"), lacking)
    assert (log.promotions, log.unsafe_promotions, log.messages_lost) == (1, 1, lost)
    assert "unsynchronised mirror is promoted: messages are lost" in caplog.text


def test_a_master_that_is_back_is_no_promotion(log: GroupLog, ears: Ears) -> None:
    """6-13: the same node leads again, with all that it had."""
    before = group_on("a")
    log.changed(NAME, before, promoted(before, "a", "a"), None)
    assert log.promotions == 0
