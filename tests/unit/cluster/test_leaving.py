"""Leaving: a node that is drained, stopped or out of disk has synchronised mirrors lead instead."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from machine_cluster import MachineCluster
from machine_world import (
    ALL,
    EXACTLY_TWO,
    NAME,
    MachineWorld,
    group_change,
    group_on,
    only,
    policy_change,
    proposed,
    queue_change,
    state_change,
)
from replica_world import message
from warren.cluster.actions import Commit, Left
from warren.cluster.events import CommitAnswered, DrainWanted, NewsArrived, StopWanted
from warren.cluster.leaving import HAND_OVER_MS_MAX, LOOK_AGAIN_MS
from warren.cluster.link.control import Held, HeldCopy
from warren.cluster.node_replica import NodeReplica
from warren.model.records import QueueName
from warren.replication.group_record import QueueState, node_of

OTHER = ("/", "other")


@pytest.fixture
def world() -> MachineWorld:
    """Node `a` of a cluster of three, with links to `b` and `c`."""
    world = MachineWorld()
    world.begin("bc")
    return world


def hold_all(world: MachineWorld) -> list[object]:
    """All mirrors in sync tell that they hold what there is."""
    replica, actions = world.host.replica, world.end_turn()
    for member in replica.record.insync:
        if member != replica.me.id:
            held = Held(
                (HeldCopy(replica.uid, member, replica.record.epoch, replica.master.number),)
            )
            actions += world.tell(NewsArrived(held))
    return actions


@pytest.mark.parametrize("event", [DrainWanted(True), StopWanted()])
def test_a_node_that_leads_nothing_has_left_at_once(
    world: MachineWorld, event: DrainWanted | StopWanted
) -> None:
    world.followed(group_on("b"))
    assert only(world.tell(event), Left) == [Left()]


def test_a_node_has_left_when_a_mirror_leads_instead(world: MachineWorld) -> None:
    world.led("b")
    assert only(world.tell(DrainWanted(True)), Left) == []
    (group,) = proposed(hold_all(world))
    assert node_of(group.successor) == "b"
    world.store()
    world.version += 1
    actions = world.changed(group_change(group_on("b", view=90, epoch=2), world.version))
    assert Left() in actions


def test_a_node_that_stops_hands_all_queues_over_and_loses_nothing() -> None:
    """3-08: it is told `Left` once the mirror leads; it plans nothing any more."""
    cluster = MachineCluster("ab")
    cluster.declare("a")
    cluster.run(1_000)
    cluster.nodes["a"].host.replica.master.publish(message(7), 0, None, 0)
    cluster.run()
    cluster.tell("a", StopWanted())
    cluster.run(1_000)
    assert Left() in cluster.told
    assert cluster.leader == "b"
    assert cluster.nodes["b"].host.replica.master.length == 1
    assert cluster.nodes["a"].node.overlooked() == []


def test_a_queue_that_moves_has_no_other_queue_looked_at_until_a_while_later(
    world: MachineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand queues are a thousand changes, so a look at all of them after each took 10 s."""
    looks: list[list[QueueName] | None] = []
    led = world.node.led

    def watched(names: Iterable[QueueName] | None = None) -> list[NodeReplica]:
        looks.append(None if names is None else [*names])
        return led(names)

    world.led("b")
    monkeypatch.setattr(world.node, "led", watched)
    assert only(world.tell(DrainWanted(True)), Left) == []
    for name in (OTHER, OTHER, NAME):
        world.changed(queue_change(name))
    assert looks == [None, [OTHER], [OTHER], [NAME]]
    world.advance(LOOK_AGAIN_MS)
    assert looks[4:] == [None], "all, once, in case something was refused"
    world.changed(state_change("b"))
    assert looks[5:] == [None], "a node may take queues now that it could not"


def test_a_queue_is_not_handed_over_to_a_node_that_stops_too(world: MachineWorld) -> None:
    """Two nodes that stopped together passed their queues to and fro until their time was up."""
    world.led("bc")
    world.changed(state_change("b", is_stopping=True))
    assert world.view.nodes_in_service == ["a", "c"]
    actions = world.tell(StopWanted()) + hold_all(world)
    assert {node_of(group.successor) for group in proposed(actions)} == {"c"}
    world.changed(state_change("b"))
    assert world.view.nodes_in_service == ["a", "b", "c"]


def test_a_node_that_waited_long_enough_leaves_without_its_successors(
    world: MachineWorld,
) -> None:
    """The mirror is in sync, and does not answer."""
    world.led("b")
    assert only(world.tell(DrainWanted(True)), Left) == []
    assert only(world.advance(HAND_OVER_MS_MAX - 1), Left) == []
    assert only(world.advance(1), Left) == [Left()]


def test_a_queue_without_a_synchronised_mirror_stays_with_a_node_that_is_drained(
    world: MachineWorld,
) -> None:
    """Only a node that stops has to write down that the queue waits for it."""
    world.led("b", insync="a")
    actions = world.tell(DrainWanted(True))
    assert (only(actions, Left), proposed(actions)) == ([Left()], [])


def test_a_node_that_stops_writes_down_that_a_queue_waits_for_it(world: MachineWorld) -> None:
    """6-01: no mirror is synchronised. The node has left when that is stored."""
    world.led("b", insync="a")
    actions = world.tell(StopWanted())
    (group,) = proposed(actions)
    assert group.state is QueueState.STOPPED
    assert only(actions, Left) == []
    (commit,) = only(actions, Commit)
    assert only(world.tell(CommitAnswered(commit.token, True)), Left) == [Left()]


def test_a_node_that_stops_leaves_though_the_store_refuses(world: MachineWorld) -> None:
    world.led("b", insync="a")
    world.tell(StopWanted())
    assert only(world.refuse(), Left) == [Left()]


def test_a_node_that_stops_waits_for_all_answers(world: MachineWorld) -> None:
    world.declare({"ha-mode": "all"})
    other = ("/", "other")
    world.topology.add("a", other)
    world.topology.here.add(other)
    world.changed(policy_change())
    world.store()
    world.tell(StopWanted())
    one, two = world.commits
    assert only(world.tell(CommitAnswered(one.token, True)), Left) == []
    assert only(world.tell(CommitAnswered(two.token, True)), Left) == [Left()]


def test_a_policy_may_rather_lose_messages_than_have_the_queue_wait(world: MachineWorld) -> None:
    """6-01: `ha-promote-on-shutdown: always`."""
    world.led("b", {**ALL, "ha-promote-on-shutdown": "always"}, insync="a")
    actions = world.tell(StopWanted())
    assert (only(actions, Left), proposed(actions)) == ([Left()], [])


def test_a_node_whose_successors_did_not_answer_does_not_claim_to_be_alone(
    world: MachineWorld,
) -> None:
    """There is another good copy, so the queue need not wait for this one."""
    world.led("b")
    world.tell(StopWanted())
    actions = world.advance(HAND_OVER_MS_MAX)
    assert (only(actions, Left), proposed(actions)) == ([Left()], [])


def test_nodes_that_are_drained_do_not_take_over(world: MachineWorld) -> None:
    world.led("bc")
    world.changed(state_change("b", is_drained=True))
    world.tell(DrainWanted(True))
    (group,) = proposed(hold_all(world))
    assert node_of(group.successor) == "c"


def test_a_mirror_that_comes_in_sync_while_a_node_leaves_takes_over(world: MachineWorld) -> None:
    """Whatever changes, what can be handed over by then is."""
    other = ("/", "other")
    world.led("b")
    world.topology.add("a", other)
    world.topology.here.add(other)
    world.changed(policy_change())
    world.store()
    world.tell(DrainWanted(True))
    assert not world.node.replicas[other].replica.is_handing_over
    host = world.node.replicas[other]
    group = group_on("ab", uid=host.replica.uid, view=50)
    members = (host.replica.record.members[0], group.members[1])
    ids = tuple(member.id for member in members)
    world.version += 1
    record = type(group)(group.uid, 1, 50, ids[0], members, ids, ("a", "b"))
    world.changed(group_change(record, world.version, other))
    assert host.replica.is_handing_over


def test_a_node_that_is_back_in_service_keeps_its_queues(world: MachineWorld) -> None:
    world.led("b", insync="a")
    world.tell(DrainWanted(True))
    assert "a" not in world.view.nodes_in_service
    assert world.tell(DrainWanted(False)) == []
    assert "a" in world.view.nodes_in_service
    world.regroup("bc")
    assert not world.host.replica.is_handing_over
    assert only(world.advance(HAND_OVER_MS_MAX), Left) == []


def test_a_drained_node_keeps_its_copy_only_where_the_policy_names_nodes(
    world: MachineWorld,
) -> None:
    world.led("b", EXACTLY_TWO)
    world.tell(DrainWanted(True))
    (group,) = proposed(hold_all(world))
    assert "a" not in group.recoverable


def test_a_node_that_stops_keeps_its_copy(world: MachineWorld) -> None:
    """It comes back with most of it."""
    world.led("b", EXACTLY_TWO)
    world.tell(StopWanted())
    (group,) = proposed(hold_all(world))
    assert "a" in group.recoverable


def test_a_full_disk_moves_all_masters_of_its_virtual_host_and_no_others(
    world: MachineWorld,
) -> None:
    """They share a journal. Nothing is waited for: each message asks again."""
    world.led("b")
    world.node.leaving.leave_full_disk("other")
    assert not world.host.replica.is_handing_over
    world.node.leaving.leave_full_disk("/")
    assert world.host.replica.is_handing_over
    world.node.leaving.leave_full_disk("/")
    assert world.stories().count("hands over: its disk takes nothing") == 1


def test_a_queue_that_was_deleted_is_not_led(world: MachineWorld) -> None:
    world.led("b")
    assert world.node.led() == [world.host]
    del world.topology.records[NAME]
    assert world.node.led() == []
