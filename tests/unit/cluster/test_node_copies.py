"""Copies of mirrored queues, as the machine of a node makes, joins, moves and gives them up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from machine_cluster import MachineCluster
from machine_world import (
    ALL,
    EXACTLY_TWO,
    NAME,
    UID,
    MachineWorld,
    group_change,
    group_on,
    member_of,
    only,
    policy_change,
    proposed,
    queue_change,
    session_change,
    state_change,
)
from replica_world import Confirmed, message
from warren.cluster.actions import PrepareCopy, Redirect, SendFrame, TellNode
from warren.cluster.copy_keeping import INVITATION_MS_MAX, RETRY_MS
from warren.cluster.copy_planning import Invite
from warren.cluster.events import (
    CopyPrepared,
    LinkDown,
    LinkUp,
    MemoryRecovered,
    NewsArrived,
    RelocationWanted,
    StopWanted,
)
from warren.cluster.link.control import BecomeMirror, Kept, OutOfReach
from warren.cluster.relocations import RELOCATION_MS_MAX
from warren.replication.group_record import node_of

INVITATION = NewsArrived(BecomeMirror(*NAME, UID))


@pytest.fixture
def world() -> MachineWorld:
    """Node `a` of a cluster of three, with links to `b` and `c`."""
    world = MachineWorld()
    world.begin("bc")
    return world


def invited(actions: list[object]) -> list[str]:
    return [a.node for a in only(actions, TellNode) if isinstance(a.news, BecomeMirror)]


# Inviting.


def test_a_node_that_did_not_become_a_mirror_is_asked_again(world: MachineWorld) -> None:
    world.declare()
    assert invited(world.store()) == ["b", "c"]
    world.regroup("b", insync="b")
    assert invited(world.advance(INVITATION_MS_MAX - 1)) == []
    assert invited(world.advance(1)) == ["c"]


def test_a_node_is_asked_again_when_its_link_comes_up(world: MachineWorld) -> None:
    """The invitation may have been lost with the link before."""
    world.declare()
    world.store()
    world.tell(LinkDown("b"))
    assert invited(world.tell(LinkUp("b"))) == ["b"]


def test_another_node_is_asked_if_the_first_one_ended(world: MachineWorld) -> None:
    world.declare(EXACTLY_TWO)
    assert invited(world.store()) == ["b"]
    assert invited(world.changed(session_change("b", ""))) == ["c"]


def test_an_invitation_is_not_repeated_once_the_queue_is_not_led_here(
    world: MachineWorld,
) -> None:
    world.led("")
    world.tell(LinkDown("b"))
    world.tell(LinkUp("b"))
    world.version += 1
    world.changed(group_change(None, world.version))
    del world.topology.records[NAME]
    assert invited(world.advance(INVITATION_MS_MAX)) == []


# Being invited.


def test_an_invitation_makes_a_mirror_when_the_disk_is_ready(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(group_change(group_on("b"), 1))
    assert world.tell(INVITATION) == [PrepareCopy(NAME, UID)]
    assert world.tell(INVITATION) == []
    actions = world.tell(CopyPrepared(NAME, UID))
    assert {sent.node for sent in only(actions, SendFrame)} == {"b"}
    assert world.host.replica.mirror is not None
    assert world.tell(INVITATION) == []


def test_an_invitation_is_kept_until_the_group_is_known(world: MachineWorld) -> None:
    """The master may have heard before this node that there is a group."""
    world.topology.add("b")
    assert world.tell(INVITATION) == []
    actions = world.changed(queue_change(), group_change(group_on("b"), 1))
    assert PrepareCopy(NAME, UID) in actions


def test_an_invitation_is_kept_until_all_members_are_linked(world: MachineWorld) -> None:
    """A ring with a cut in it is useless."""
    world.tell(LinkDown("c"))
    world.topology.add("b")
    world.changed(group_change(group_on("bc"), 1))
    assert only(world.tell(INVITATION), PrepareCopy) == []
    assert PrepareCopy(NAME, UID) in world.tell(LinkUp("c"))


def test_an_invitation_is_kept_until_the_disk_takes_writes(world: MachineWorld) -> None:
    """A copy that cannot be written would hold all publishers up, and be expelled."""
    world.topology.add("b")
    world.changed(group_change(group_on("b"), 1))
    world.is_doubtful = True
    assert only(world.tell(INVITATION), PrepareCopy) == []
    assert only(world.advance(RETRY_MS), PrepareCopy) == []
    world.is_doubtful = False
    assert only(world.advance(RETRY_MS), PrepareCopy) == [PrepareCopy(NAME, UID)]


def test_an_invitation_is_kept_until_the_virtual_hosts_storage_is_open(
    world: MachineWorld,
) -> None:
    world.files.open_vhosts.clear()
    world.topology.add("b")
    world.changed(group_change(group_on("b"), 1))
    assert world.tell(INVITATION) == []
    world.files.open_vhosts.add("/")
    actions = world.changed(group_change(group_on("b", view=7), 2))
    assert PrepareCopy(NAME, UID) in actions


def test_an_invitation_to_a_group_that_was_replaced_is_not_followed(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(group_change(group_on("b", uid="later"), 1))
    assert world.tell(INVITATION) == []


def test_a_group_that_ended_while_the_disk_was_prepared_gets_no_mirror(
    world: MachineWorld,
) -> None:
    world.topology.add("b")
    world.changed(group_change(group_on("b"), 1))
    world.tell(INVITATION)
    world.changed(group_change(None, 2))
    assert world.tell(CopyPrepared(NAME, UID)) == []
    assert world.node.replicas == {}


def test_a_node_that_stops_follows_no_invitation(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(group_change(group_on("b"), 1))
    world.tell(StopWanted())
    assert world.tell(INVITATION) == []


def test_a_copy_that_was_expelled_is_taken_up_again(world: MachineWorld) -> None:
    """The master could not reach this node for a while; what it has, it keeps."""
    host = world.followed(group_on("b"))
    level = host.replica.mirror.levels[0] = world.files.level(NAME, 0)
    (left,) = (m for m in world.group.members if m.node == "b")
    world.version += 1
    expelled = replace(world.group, view=9, members=(left,), recoverable=("b", "a"))
    actions = world.changed(group_change(expelled, world.version))
    assert world.node.replicas == {}
    assert Redirect(NAME, "b", True) in actions
    assert only(world.tell(INVITATION), PrepareCopy) == []
    assert world.host.replica.mirror.levels[0] is level


def test_a_copy_that_is_not_wanted_any_more_is_deleted(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    level = host.replica.mirror.levels[0] = world.files.level(NAME, 0)
    level.publish(message(1), 0, None, 0)
    world.version += 1
    world.changed(group_change(replace(group_on("b"), view=9), world.version))
    assert (world.node.replicas, level.length) == ({}, 0)


def test_a_queue_that_is_deleted_ends_its_mirrors(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    del world.topology.records[NAME]
    world.version += 1
    world.changed(group_change(None, world.version))
    assert (world.node.replicas, host.replica.is_stopped) == ({}, True)


# Copies that a policy moves.


def test_a_copy_too_many_is_expelled(world: MachineWorld) -> None:
    world.led("bc")
    world.topology.policies["/"] = EXACTLY_TWO
    (group,) = proposed(world.changed(policy_change()))
    assert [member.node for member in group.live] == ["a", "b"]
    assert "c" not in group.recoverable


def test_a_policy_of_another_virtual_host_changes_nothing(world: MachineWorld) -> None:
    world.led("bc")
    world.topology.policies["/"] = EXACTLY_TWO
    world.is_checked = False
    assert world.changed(policy_change("v")) == []
    assert world.node.overlooked() != []


def test_a_master_that_is_not_listed_hands_over() -> None:
    """4-05: clients of this node follow the queue to `b`."""
    cluster = MachineCluster("ab")
    cluster.declare("a")
    cluster.run(1_000)
    assert cluster.in_sync == "ab"
    for node in cluster.nodes.values():
        node.topology.policies["/"] = {"ha-mode": "nodes", "ha-params": ["b"]}
    cluster.changed(policy_change())
    cluster.run(1_000)
    assert (cluster.leader, cluster.in_sync) == ("b", "b")
    assert Redirect(NAME, "b", True) in cluster.told
    assert cluster.nodes["a"].node.replicas == {}


def test_all_copies_come_in_sync_and_hold_what_is_confirmed() -> None:
    cluster = MachineCluster("abc")
    cluster.declare("a")
    cluster.run(3_000)
    assert cluster.in_sync == "abc"
    publisher = Confirmed()
    master = cluster.nodes["a"].host.replica.master
    for number in range(3):
        master.publish(message(number), 0, publisher, number)
    assert publisher.confirmations == []
    cluster.run()
    assert publisher.confirmations == [0, 1, 2]
    for name in "bc":
        bodies = [body for _, body in cluster.nodes[name].files.of().drained()[0]]
        assert bodies == [b"0", b"1", b"2"]


def test_a_mirror_is_promoted_when_its_masters_session_ends() -> None:
    """3-01, without the processes: nothing that was confirmed is lost."""
    cluster = MachineCluster("abc")
    cluster.declare("a")
    cluster.run(3_000)
    cluster.nodes["a"].host.replica.master.publish(message(7), 0, None, 0)
    cluster.run()
    cluster.end("a")
    cluster.run(3_000)
    assert (cluster.leader, cluster.in_sync) == ("b", "bc")
    master = cluster.nodes["b"].host.replica.master
    assert master.length == 1
    assert cluster.nodes["b"].node.log.promotions == 1


def test_messages_from_before_the_group_are_synchronised() -> None:
    """5-05: `automatic`; a memory alarm pauses it, and its end lets it go on (5-18)."""
    cluster = MachineCluster("ab")
    cluster.declare("a", EXACTLY_TWO | {"ha-params": 1})
    node = cluster.nodes["a"]
    for number in range(25):
        node.host.replica.master.publish(message(number), 0, None, 0)
    cluster.run()
    node.is_memory_short = True
    for each in cluster.nodes.values():
        each.topology.policies["/"] = ALL
    cluster.changed(policy_change())
    cluster.run(1_000)
    assert cluster.in_sync == "a"
    node.is_memory_short = False
    cluster.tell("a", MemoryRecovered())
    cluster.run(1_000)
    assert cluster.in_sync == "ab"
    sync = node.node.sync_of(NAME)
    assert sync is not None
    assert not sync.lacks_some


def test_a_queue_that_is_not_led_here_has_no_synchronisation(world: MachineWorld) -> None:
    assert world.node.sync_of(NAME) is None
    world.followed(group_on("b"))
    assert world.node.sync_of(NAME) is None
    assert world.node.stream_mirror_in_sync(NAME) is None


# Relocations.


def test_a_relocation_moves_the_master_to_a_node_without_a_copy() -> None:
    """4-20: `exactly 1`, so nothing but the wish has a copy made."""
    cluster = MachineCluster("ab")
    cluster.declare("a", EXACTLY_TWO | {"ha-params": 1})
    cluster.nodes["a"].host.replica.master.publish(message(7), 0, None, 0)
    cluster.run()
    cluster.tell("a", RelocationWanted(NAME, "b"))
    cluster.run(1_000)
    assert (cluster.leader, cluster.in_sync) == ("b", "b")
    assert cluster.nodes["b"].host.replica.master.length == 1


def test_a_relocation_that_does_not_succeed_in_time_is_forgotten(world: MachineWorld) -> None:
    """The invitation is repeated until then, and not after."""
    world.led("b", EXACTLY_TWO)
    assert invited(world.tell(RelocationWanted(NAME, "c"))) == ["c"]
    assert invited(world.advance(INVITATION_MS_MAX)) == ["c"]
    world.advance(RELOCATION_MS_MAX)
    assert invited(world.advance(INVITATION_MS_MAX)) == []


# Members that cannot be reached, and disks that are full.


def test_a_mirrors_report_has_its_master_expel_the_neighbour(world: MachineWorld) -> None:
    world.led("bc")
    one, other = (member for member in world.group.members if member.node != "a")
    actions = world.tell(NewsArrived(OutOfReach(UID, one.id, other.id)))
    (group,) = proposed(actions)
    assert [member.node for member in group.live] == ["a", "b"]
    assert "c" in group.recoverable


def test_a_report_of_a_mirror_that_is_no_neighbour_is_not_believed(world: MachineWorld) -> None:
    world.led("bc")
    one, other = (member for member in world.group.members if member.node != "a")
    assert world.tell(NewsArrived(OutOfReach(UID, other.id, one.id))) == []


def test_a_master_whose_disk_takes_nothing_hands_over_to_a_node_with_room(
    world: MachineWorld,
) -> None:
    """`b` is the elder mirror, and short of disk itself."""
    world.led("bc")
    world.changed(state_change("b", alarms={"disk": 1}))
    replica = world.host.replica
    assert replica.refused()
    assert "hands over: its disk takes nothing" in world.stories()
    replica.held(member_of("b").id, replica.record.epoch, replica.master.number)
    replica.held(member_of("c").id, replica.record.epoch, replica.master.number)
    (group,) = proposed(world.end_turn())
    assert node_of(group.successor) == "c"


def test_a_master_whose_disk_takes_nothing_stays_if_nobody_has_room(world: MachineWorld) -> None:
    world.led("b")
    world.changed(state_change("b", alarms={"disk": 1}))
    assert not world.host.replica.refused()


def test_a_mirror_that_came_back_has_its_copies_planned_again(world: MachineWorld) -> None:
    """What it kept says whether it has to be synchronised."""
    world.led("b", insync="a")
    mirror = member_of("b").id
    world.host.replica.master.publish(message(1), 0, None, 0)
    world.end_turn()
    world.tell(NewsArrived(Kept(UID, mirror, world.group.epoch, [], {})))
    told = [str(entry) for entry in world.node.stories.of(NAME)]
    assert any("hears what a mirror has from before" in entry for entry in told)


def test_a_plan_that_nobody_had_made_is_noticed(world: MachineWorld) -> None:
    """A link that comes up without `LinkUp`: `c` should have been invited."""
    world.tell(LinkDown("c"))
    world.led("b")
    world.advance(INVITATION_MS_MAX)
    world.view.linked.add("c")
    assert world.node.overlooked() == [(NAME, Invite("c"))]
