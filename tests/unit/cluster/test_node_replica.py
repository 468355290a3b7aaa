"""A node's part of one replica: what the replica asks for becomes actions of the node."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from machine_world import (
    ALL,
    NAME,
    MachineWorld,
    group_change,
    group_on,
    only,
    proposed,
    session_change,
)
from replica_world import Confirmed, message
from warren.cluster.actions import TellNode
from warren.cluster.link.control import Held, Kept
from warren.cluster.node_replica import NodeReplica
from warren.metadata.keys import group_key
from warren.metadata.store import Check
from warren.policy.wanted_copies import MirrorMode
from warren.replication.classic.instructions import first_sequence_of
from warren.replication.classic.retained import NOTHING
from warren.replication.group_record import heir_of, node_of


@pytest.fixture
def world() -> MachineWorld:
    """Node `a` of a cluster of three, with links to `b` and `c`."""
    world = MachineWorld()
    world.begin("bc")
    return world


def held(actions: list[object]) -> list[tuple[str, int]]:
    told = [each for each in only(actions, TellNode) if isinstance(each.news, Held)]
    return [(each.node, copy.number) for each in told for copy in each.news.copies]


def test_a_proposal_is_compared_with_the_record_that_it_changes(world: MachineWorld) -> None:
    """What was proposed, and what became of it, is part of the queue's story."""
    world.declare()
    (commit,) = world.commits
    assert commit.checks == (Check(group_key(*NAME), 0),)
    world.refuse()
    assert [what for what in world.stories() if "propos" in what] == [
        "proposes",
        "proposal is refused",
    ]


def test_a_mirror_tells_once_per_turn_what_it_holds(world: MachineWorld) -> None:
    """A later number says all that an earlier one would."""
    host = world.followed(group_on("b"))
    world.end_turn()
    host.tell_held(3, True)
    host.tell_held(5, True)
    assert held(world.end_turn()) == [("b", 5)]
    host.tell_held(6, True)
    assert held(world.end_turn()) == [("b", 6)]


def test_a_mirror_without_a_leader_tells_nobody_what_it_holds(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    world.end_turn()
    host.replica.record = replace(world.group, leader="x/1/1")
    host.tell_held(3, True)
    assert held(world.end_turn()) == []


def test_a_masters_own_copy_settles_what_it_waits_for(world: MachineWorld) -> None:
    """A master alone confirms when its disk has the message."""
    world.led("", {**ALL, "ha-mode": "exactly", "ha-params": 1})
    publisher = Confirmed()
    world.host.replica.master.publish(message(1), 0, publisher, 1)
    world.end_turn()
    world.files.of().sync()
    world.host.tell_held(1, True)
    assert publisher.confirmations == [1]


def test_a_mirror_tells_a_new_leader_what_it_has_from_before(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    world.node._effects.begin()
    host.tell_kept(world.group.members[0], 4, NOTHING)
    (told,) = world.node._effects.end()
    assert told == TellNode("b", Kept(host.replica.uid, host.replica.me.id, 4, [], {}))


@pytest.mark.parametrize(
    ("policy", "may"),
    [
        ({}, False),
        (ALL, True),
        ({**ALL, "ha-promote-on-failure": "when-synced"}, False),
    ],
)
def test_the_policy_says_whether_an_unsynchronised_mirror_may_lead(
    world: MachineWorld, policy: dict[str, object], may: bool
) -> None:
    """6-02."""
    host = world.followed(group_on("b"), policy)
    assert host.may_promote_unsynced() is may


def test_a_queue_that_waits_for_its_master_is_logged_once_per_epoch(
    world: MachineWorld, caplog: pytest.LogCaptureFixture
) -> None:
    host = world.followed(group_on("b"), {**ALL, "ha-promote-on-failure": "when-synced"})
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            host.may_promote_unsynced()
    assert caplog.text.count("queue has no master") == 1


def test_a_deleted_queue_wants_no_copies(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    assert host.mirroring is not None
    assert host.mirroring.mode is MirrorMode.ALL
    del world.topology.records[NAME]
    assert host.mirroring is None


def test_the_eldest_unsynchronised_mirror_leads_if_it_may(world: MachineWorld) -> None:
    """6-02, 3-41: `b` had everything, and is gone for good."""
    host = world.followed(group_on("b"))
    world.changed(session_change("b", ""))
    world.store()
    assert heir_of(world.group) is not None
    assert node_of(world.group.leader) == "a"
    assert host.replica.master is not None
    assert (world.node.log.unsafe_promotions, "leads" in world.stories()) == (1, True)


def test_a_master_numbers_its_messages_from_the_first_of_its_epoch(world: MachineWorld) -> None:
    """No two messages of a group ever have the same number, whoever was master."""
    host = world.followed(group_on("b"))
    assert host._level(0).next_sequence == 0
    world.changed(session_change("b", ""))
    world.store()
    assert host._level(1).next_sequence == first_sequence_of(world.group.epoch)


def test_a_disk_that_refuses_has_the_mirror_leave_if_another_has_everything(
    world: MachineWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, until the disk has taken something again."""
    host = world.followed(group_on("b"))
    host.disk_failed()
    host.disk_failed()
    (group,) = proposed(world.end_turn())
    assert [member.node for member in group.live] == ["b"]
    assert caplog.text.count("disk refuses what the master sends") == 1
    host.tell_held(1, True)
    host.disk_failed()
    assert caplog.text.count("disk refuses what the master sends") == 2


def test_a_mirror_whose_disk_refuses_stays_if_nobody_else_has_everything(
    world: MachineWorld,
) -> None:
    host = world.followed(group_on("b"))
    me = host.replica.me
    world.version += 1
    world.changed(group_change(replace(world.group, insync=(me.id,), view=9), world.version))
    host.disk_failed()
    assert proposed(world.end_turn()) == []


def test_files_of_a_mirror_are_left_over_and_those_of_a_master_in_use_are_not(
    world: MachineWorld,
) -> None:
    host = world.followed(group_on("b"))
    level = host.replica.mirror.levels[0] = world.files.level(NAME, 0)
    assert host.levels_left() == {0: level}
    world.changed(session_change("b", ""))
    world.store()
    assert host.levels_left() == {}
    assert host.retire() == {0: level}
    assert host.is_abandoned


def test_a_replica_without_a_mirror_or_a_master_has_no_files(world: MachineWorld) -> None:
    world.declare()
    assert world.host.levels_left() == {}


def test_a_mirror_goes_on_with_levels_that_another_replica_had(world: MachineWorld) -> None:
    """Nobody is told any more of what was being read from them."""
    host: NodeReplica = world.followed(group_on("b"))
    level = world.files.level(NAME, 0)
    level.on_loaded = lambda: None
    mirror = host.make_mirror({0: level})
    assert (mirror.levels, level.on_loaded) == ({0: level}, None)


def test_a_replica_is_called_by_the_name_of_its_queue(world: MachineWorld) -> None:
    world.declare()
    assert str(world.host) == "queue 'q' in vhost '/'"
