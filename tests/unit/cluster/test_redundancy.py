"""Redundancy: copies that are wanted and in sync, which queues lack some, and the log of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from log_lines import log_lines
from machine_world import (
    ALL,
    NAME,
    group_change,
    group_on,
    policy_change,
    queue_change,
    session_change,
    topology_of,
    view_of,
)
from warren.cluster.redundancy import Redundancy, Standing, standing_of
from warren.cluster.redundancy_log import LINES_MAX, RedundancyLog
from warren.cluster.view import ClusterView
from warren.metadata.store import Change
from warren.model.records import QueueName
from warren.replication.group_record import GroupRecord

MEMBERS = "abc"


def mirrored(policy: Mapping[str, object], group: GroupRecord | None) -> ClusterView:
    """The view of `a`, of three members that all run."""
    view = view_of("bc")
    topology_of(view).add("a")
    topology_of(view).policies["/"] = policy
    if group is not None:
        view.apply([group_change(group, 1)])
    return view


def standing(view: ClusterView) -> Standing:
    record = view.topology.record_of(NAME)
    assert record is not None
    return standing_of(view, record, len(MEMBERS))


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ({}, 1),
        ({"ha-mode": "all"}, 3),
        ({"ha-mode": "exactly", "ha-params": 2}, 2),
        ({"ha-mode": "exactly", "ha-params": 5}, 5),
        ({"ha-mode": "nodes", "ha-params": ["a", "b", "elsewhere", "a"]}, 3),
    ],
)
def test_the_policy_says_how_many_copies_are_wanted(
    policy: Mapping[str, object], wanted: int
) -> None:
    assert standing(mirrored(policy, group_on("a"))) == Standing(wanted, 1)


def test_only_copies_in_sync_of_nodes_that_run_are_counted() -> None:
    view = mirrored(ALL, group_on("abc", insync="ab"))
    assert standing(view) == Standing(3, 2)
    view.apply([session_change("b", "")])
    assert standing(view) == Standing(3, 1)
    view.apply([session_change("b", "another life")])
    assert standing(view) == Standing(3, 1)


def test_a_queue_without_a_master_that_runs_is_down() -> None:
    view = mirrored(ALL, group_on("b"))
    view.apply([session_change("b", "")])
    assert standing(view) == Standing(3, 0, is_down=True)
    alone = view_of("bc")
    topology_of(alone).add("b")
    assert standing(alone) == Standing(1, 1)
    alone.apply([session_change("b", "")])
    assert standing(alone) == Standing(1, 0, is_down=True)
    assert not standing(alone).is_whole


class World:
    """The redundancy of a view, which hears of changes as the store tells them."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.redundancy = Redundancy(view, lambda: MEMBERS)
        self.log = RedundancyLog(view, self.redundancy)

    def hear(self, *changes: Change) -> None:
        self.view.apply(changes)
        self.redundancy.store_changed(changes)

    def look(self) -> dict[QueueName, Standing]:
        while not self.redundancy.look(2):
            pass
        self.log.look()
        return dict(self.redundancy.lacking)

    def mirror(self, count: int) -> list[QueueName]:
        """So many queues, led here and mirrored on `b`."""
        names = [("/", f"q{number}") for number in range(count)]
        for name in names:
            topology_of(self.view).add("a", name)
            self.hear(queue_change(name), group_change(group_on("abc"), 1, name))
        return names


@pytest.fixture
def world() -> World:
    view = view_of("bc")
    topology_of(view).policies["/"] = ALL
    return World(view)


def test_changes_of_queues_groups_policies_and_sessions_are_looked_at(world: World) -> None:
    first, second = world.mirror(2)
    assert world.look() == {}
    world.hear(group_change(group_on("abc", insync="ab"), 2, first))
    assert world.look() == {first: Standing(3, 2)}
    world.hear(session_change("c", ""))
    assert world.look() == {first: Standing(3, 2), second: Standing(3, 2)}
    topology_of(world.view).policies["/"] = {"ha-mode": "exactly", "ha-params": 2}
    world.hear(policy_change())
    assert world.look() == {}
    topology_of(world.view).policies["/"] = ALL
    world.hear(policy_change())
    del topology_of(world.view).records[second]
    world.hear(queue_change(second))
    assert world.look() == {first: Standing(3, 2)}


def test_a_queue_that_loses_and_regains_a_copy_is_logged_once_each(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (name,) = world.mirror(1)
    with caplog.at_level(logging.INFO):
        world.look()
        world.hear(session_change("c", ""))
        for _ in range(4):
            world.look()
        assert log_lines(caplog).count("queue lacks copies") == 1
        assert "synchronised=2 wanted=3 state=running" in log_lines(caplog)
        world.hear(session_change("c"))
        for _ in range(4):
            world.look()
    assert log_lines(caplog).count("queue has all copies again") == 1
    assert world.look() == {}
    assert name[1] in log_lines(caplog)


def test_a_copy_that_is_missing_at_one_look_only_is_not_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    (name,) = world.mirror(1)
    with caplog.at_level(logging.INFO):
        world.look()
        world.hear(group_change(group_on("abc", insync="ab"), 2, name))
        world.look()
        world.hear(group_change(group_on("abc"), 3, name))
        world.look()
        world.look()
    assert "copies" not in log_lines(caplog)


def test_thousands_of_queues_are_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    count = 100 * LINES_MAX
    world.mirror(count)
    with caplog.at_level(logging.INFO):
        world.look()
        world.hear(session_change("c", ""))
        for _ in range(3):
            world.look()
        world.hear(session_change("c"))
        for _ in range(3):
            world.look()
    lost, regained = log_lines(caplog).splitlines()
    assert f"queues lack copies count={count} down=0" in lost
    assert f"queues have all copies again count={count}" in regained


def test_a_queue_without_master_is_logged_by_the_first_node_that_runs_and_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        for me, others in (("a", "bc"), ("b", "ac")):
            view = view_of(others, me)
            topology_of(view).add("c")
            world = World(view)
            world.hear(session_change("c", ""))
            for _ in range(3):
                assert world.look() == {NAME: Standing(1, 0, is_down=True)}
    assert log_lines(caplog).count("queue lacks copies") == 1
