"""Reachability: members that block a queue are expelled, and masters that are cut off move."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from machine_world import (
    EXACTLY_TWO,
    MachineWorld,
    group_change,
    group_on,
    member_of,
    only,
    proposed,
    session_change,
    state_change,
)
from warren.cluster.actions import PublishState, TellNode
from warren.cluster.events import LinkDown, LinkUp, NewsArrived
from warren.cluster.link.control import OutOfReach
from warren.cluster.node_replica import NodeReplica
from warren.cluster.reachability import GRACE_MS
from warren.model.limits import MIRROR_TIMEOUT_MS as LIMIT_MS
from warren.replication.group_record import GroupRecord, add_right_of, node_of


@pytest.fixture
def world() -> MachineWorld:
    """Node `a` of a cluster of three, with links to `b` and `c`."""
    world = MachineWorld()
    world.begin("bc")
    return world


def expelled(actions: list[object], of: GroupRecord) -> list[str]:
    """Nodes whose members were in the record, and are not in what is proposed."""
    left = {member.node for group in proposed(actions) for member in group.live}
    return [member.node for member in of.live if left and member.node not in left]


def reports(actions: list[object]) -> list[tuple[str, object]]:
    told = only(actions, TellNode)
    return [(each.node, each.news) for each in told if isinstance(each.news, OutOfReach)]


def mirror_between(world: MachineWorld) -> NodeReplica:
    """`b` leads; the ring goes from `b` to `a`, to `c`, and back."""
    host = world.followed(group_on("b"))
    world.version += 1
    group = add_right_of(world.group, host.replica.me.id, member_of("c"))
    world.changed(group_change(group, world.version))
    return host


def test_a_master_expels_a_mirror_that_it_cannot_reach(world: MachineWorld) -> None:
    """Confirms wait for it. A link that is down for a moment is no reason."""
    world.led("bc")
    world.tell(LinkDown("c"))
    assert proposed(world.advance(LIMIT_MS - 1)) == []
    assert expelled(world.advance(1), world.group) == ["c"]


def test_a_link_that_comes_back_in_time_is_forgotten(world: MachineWorld) -> None:
    world.led("bc")
    world.tell(LinkDown("b"))
    world.tell(LinkDown("c"))
    world.tell(LinkUp("b"))
    assert expelled(world.advance(LIMIT_MS), world.group) == ["c"]


@pytest.mark.parametrize(
    ("silent_ms", "left_ms"), [(1_500, LIMIT_MS - 1_500), (LIMIT_MS + 500, GRACE_MS)]
)
def test_the_time_counts_for_which_a_link_was_silent_before_it_broke(
    world: MachineWorld, silent_ms: int, left_ms: int
) -> None:
    world.led("bc")
    world.tell(LinkDown("c", silent_ms))
    assert proposed(world.advance(left_ms - 1)) == []
    assert expelled(world.advance(1), world.group) == ["c"]


def test_a_mirror_tells_its_master_of_its_neighbour(world: MachineWorld) -> None:
    host = mirror_between(world)
    world.tell(LinkDown("c"))
    actions = world.advance(LIMIT_MS)
    report = OutOfReach(host.replica.uid, host.replica.me.id, member_of("c").id)
    assert reports(actions) == [("b", report)]
    assert proposed(actions) == []


def test_a_neighbour_that_stays_out_of_reach_is_told_of_again(world: MachineWorld) -> None:
    """A member that comes in or goes changes who is whose neighbour, and news may be lost."""
    mirror_between(world)
    world.tell(LinkDown("c"))
    world.tell(LinkDown("c"))
    assert len(reports(world.advance(3 * LIMIT_MS))) == 3


def test_a_mirror_says_nothing_about_its_master(world: MachineWorld) -> None:
    """A leader dies by its session, or leaves by itself."""
    mirror_between(world)
    world.tell(LinkDown("b"))
    assert reports(world.advance(LIMIT_MS)) == []


def test_a_node_whose_session_has_ended_is_not_looked_at_any_more(world: MachineWorld) -> None:
    """Its members die by their session."""
    world.led("bc")
    world.tell(LinkDown("b"))
    world.advance(LIMIT_MS)
    assert world.node.reachability.unreachable == {"b"}
    actions = world.changed(session_change("b", ""))
    assert PublishState() in actions
    assert world.node.reachability.unreachable == set()
    assert only(world.advance(3 * LIMIT_MS), PublishState) == []


def test_all_nodes_are_told_whom_this_one_cannot_reach_when_that_changes(
    world: MachineWorld,
) -> None:
    world.tell(LinkDown("b"))
    assert only(world.advance(LIMIT_MS), PublishState) == [PublishState()]
    assert world.node.reachability.unreachable == {"b"}
    assert only(world.advance(LIMIT_MS), PublishState) == []
    assert only(world.tell(LinkUp("b")), PublishState) == [PublishState()]
    assert only(world.tell(LinkUp("b")), PublishState) == []


def test_a_master_believes_a_neighbour_and_nobody_else(world: MachineWorld) -> None:
    """The ring is `a`, `b`, `c`: `b` speaks to `c`, and `c` to the master."""
    me = world.led("bc")
    one, other = member_of("b").id, member_of("c").id
    for speaker, suspect in [(other, one), (one, "x/1/1"), (other, me.id)]:
        report = OutOfReach(world.group.uid, speaker, suspect)
        assert world.tell(NewsArrived(report)) == []
    report = OutOfReach(world.group.uid, one, other)
    assert expelled(world.tell(NewsArrived(report)), world.group) == ["c"]


def test_a_mirror_expels_nobody(world: MachineWorld) -> None:
    host = mirror_between(world)
    report = OutOfReach(host.replica.uid, host.replica.me.id, member_of("c").id)
    assert world.tell(NewsArrived(report)) == []


# Masters that are cut off.


def test_a_master_hands_over_to_a_mirror_that_reaches_more_nodes(world: MachineWorld) -> None:
    """`c` says that it cannot reach `a`; `b` reaches both."""
    world.led("bc", insync="b")
    world.tell(LinkDown("c"))
    world.changed(state_change("c", unreachable=("a",)))
    assert world.host.replica.is_handing_over
    assert "hands over to a mirror that reaches more nodes" in world.stories()


def test_silence_alone_moves_no_master(world: MachineWorld) -> None:
    """A node that is cut off from everybody cannot say so, and its session ends soon."""
    world.led("bc", insync="b")
    world.tell(LinkDown("c"))
    world.advance(LIMIT_MS)
    assert not world.host.replica.is_handing_over


def test_a_successor_has_to_be_linked_now(world: MachineWorld) -> None:
    """`b` reaches all others, as far as anybody has said, but the link to it is down, too."""
    world.led("bc", insync="b")
    for node in "bc":
        world.tell(LinkDown(node))
    world.changed(state_change("c", unreachable=("a",)))
    assert not world.host.replica.is_handing_over


def test_a_master_that_is_cut_off_keeps_its_copy_only_where_the_policy_names_nodes(
    world: MachineWorld,
) -> None:
    world.led("b", EXACTLY_TWO)
    world.tell(LinkDown("c"))
    world.changed(state_change("c", unreachable=("a",)))
    replica = world.host.replica
    replica.held(member_of("b").id, replica.record.epoch, replica.master.number)
    (group,) = proposed(world.end_turn())
    assert node_of(group.successor) == "b"
    assert "a" not in group.recoverable


def test_a_replica_that_has_stopped_says_nothing(world: MachineWorld) -> None:
    host = mirror_between(world)
    host.replica.is_stopped = True
    world.tell(LinkDown("c"))
    assert reports(world.advance(LIMIT_MS)) == []
    host.replica.record = replace(world.group, leader="x/1/1")
    host.replica.is_stopped = False
    assert reports(world.advance(LIMIT_MS)) == []
