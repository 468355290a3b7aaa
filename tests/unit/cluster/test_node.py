"""The machine of a cluster's node: events in, actions out, in one order."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec.structs import replace

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
    session_of,
)
from warren.cluster.actions import (
    AwaitMaster,
    Commit,
    ConnectNode,
    DisconnectNode,
    LoseMaster,
    OwnSessionLost,
    Redirect,
    RemoveQueues,
    RenewQueue,
    RevokeSession,
    SendFrame,
    TellNode,
)
from warren.cluster.copy_keeping import RETRY_MS
from warren.cluster.copy_planning import BeginGroup
from warren.cluster.events import (
    CommitAnswered,
    Event,
    FramesArrived,
    LinkDown,
    LinkGivenUp,
    LinkUp,
    MasterMissing,
    MemoryRecovered,
    NewsArrived,
    ProcessGone,
    QueueRenewed,
    QueuesLoaded,
    SessionBegun,
    SessionPending,
)
from warren.cluster.link.control import BecomeMirror, Held, HeldCopy, Kept
from warren.cluster.redirection import MASTERLESS_MS_MAX
from warren.metadata.keys import group_key
from warren.metadata.store import Check, Delete
from warren.replication.group_record import SessionGone


@pytest.fixture
def world() -> MachineWorld:
    """Node `a` of a cluster of three, with links to `b` and `c`."""
    world = MachineWorld()
    world.begin("bc")
    return world


def test_every_event_has_a_handler(world: MachineWorld) -> None:
    assert set(world.node._handlers) == set(get_args(Event))


def test_a_handler_that_raises_leaves_the_machine_usable(world: MachineWorld) -> None:
    world.node._handlers[MemoryRecovered] = lambda event: 1 // 0
    with pytest.raises(ZeroDivisionError):
        world.tell(MemoryRecovered())
    assert world.tell(LinkDown("nobody")) == []


# One order.


def test_a_change_of_the_store_is_decided_about_as_a_whole(world: MachineWorld) -> None:
    """The policy says `exactly 2` and `b` is gone, in one change: `c` is asked, and nobody else.

    A machine that heard of the policy first would invite `b`; one that heard of the session first
    would have no group to think of.
    """
    world.declare({})
    world.topology.policies["/"] = EXACTLY_TWO
    actions = world.changed(policy_change(), session_change("b", ""))
    (group,) = proposed(actions)
    assert [member.node for member in group.members] == ["a"]
    assert [told.node for told in only(world.store(), TellNode)] == ["c"]


def test_a_group_and_the_end_of_its_leaders_session_are_one_change(world: MachineWorld) -> None:
    """Clients are never sent to `b`, which was leader and had a session a moment ago."""
    world.topology.add("b")
    actions = world.changed(
        session_change("b", ""), queue_change(), group_change(group_on("bc"), 1)
    )
    assert only(actions, Redirect) == []
    assert AwaitMaster(NAME) in actions


def test_clients_leave_a_link_before_it_is_dropped(world: MachineWorld) -> None:
    """What waits for an answer on a link that is dropped fails."""
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    actions = world.changed(session_change("b", ""))
    assert actions.index(AwaitMaster(NAME)) < actions.index(DisconnectNode(session_of("b")))


def test_a_node_that_comes_back_in_the_same_change_is_disconnected_first(
    world: MachineWorld,
) -> None:
    actions = world.changed(session_change("b", "2"))
    life, next_life = DisconnectNode(session_of("b")), ConnectNode(session_of("b", "2"))
    assert actions.index(life) < actions.index(next_life)


def test_replicas_hear_of_their_record_before_sessions_that_ended(world: MachineWorld) -> None:
    """A member that the record brings in, whose session ends in the same change, is found dead."""
    world.led("b")
    group = replace(
        world.group,
        view=world.group.view + 1,
        members=(*world.group.members, member_of("c", 90)),
    )
    world.version += 1
    actions = world.changed(group_change(group, world.version), session_change("c", ""))
    (commit,) = only(actions, Commit)
    assert commit.gone == (SessionGone("c", "1"),)


# The life of this node.


def test_a_node_connects_to_every_other_session() -> None:
    world = MachineWorld()
    assert only(world.begin("bc"), ConnectNode) == [
        ConnectNode(session_of("b")),
        ConnectNode(session_of("c")),
    ]


def test_a_lost_session_is_told_to_whoever_keeps_it(world: MachineWorld) -> None:
    assert world.changed(session_change("a", "")) == [OwnSessionLost()]
    assert world.changed(session_change("a", "other")) == [OwnSessionLost()]


def test_nothing_is_planned_before_this_node_has_a_session() -> None:
    """A group whose founder has no session would be led by nobody."""
    world = MachineWorld()
    world.tell(SessionPending("1"))
    world.tell(QueuesLoaded())
    assert proposed(world.declare()) == []
    actions = world.tell(SessionBegun())
    assert [group.leader for group in proposed(actions)] == ["a/1/1"]


def test_clients_are_told_of_masters_once_queues_are_loaded() -> None:
    """Before, there are no queues that could be moved."""
    world = MachineWorld()
    world.tell(SessionPending("1"))
    world.topology.add("b")
    actions = world.changed(session_change("b"), group_change(group_on("bc"), 1))
    assert only(actions, Redirect) == []
    assert world.tell(QueuesLoaded()) == [Redirect(NAME, "b", True)]


def test_a_session_that_begins_again_makes_new_members_of_copies(world: MachineWorld) -> None:
    """The copies go on: a former mirror joins again, with what it has."""
    host = world.followed(group_on("b"))
    level = host.replica.mirror.levels[0] = world.files.level(NAME, 0)
    world.tell(SessionPending("2"))
    world.changed(session_change("a", "2"))
    actions = world.tell(SessionBegun())
    assert host.replica.is_stopped
    assert world.host is not host
    assert world.host.replica.me.incarnation == "2"
    assert world.host.replica.mirror.levels[0] is level
    assert Redirect(NAME, "b", True) in actions


def test_a_master_whose_session_was_lost_is_deposed_and_joins_its_successor(
    world: MachineWorld,
) -> None:
    world.led("b")
    master = world.host.replica.master
    world.tell(SessionPending("2"))
    world.changed(session_change("a", "2"))
    actions = world.tell(SessionBegun())
    assert master.is_deposed
    assert world.host.replica.mirror is not None
    assert AwaitMaster(NAME) in actions
    assert "is deposed" in world.stories()


def test_a_replica_of_this_session_is_left_alone_when_the_session_is_confirmed(
    world: MachineWorld,
) -> None:
    """A master knew of the session before this node did, and invited it already."""
    host = world.followed(group_on("b"))
    world.tell(SessionBegun())
    assert world.host is host


def test_a_copy_whose_group_ended_while_there_was_no_session_is_gone(world: MachineWorld) -> None:
    host = world.followed(group_on("b"))
    world.tell(SessionPending("2"))
    del world.view.groups[NAME]
    world.tell(SessionBegun())
    assert host.replica.is_stopped
    assert world.node.replicas == {}


def test_copies_on_the_disk_that_a_group_counts_on_join_it_at_the_start() -> None:
    """What no group counts on is not claimed: the storage deletes it."""
    world = MachineWorld()
    other = ("/", "other")
    for name in (NAME, other):
        world.topology.add("b", name)
        world.files.of(name).level(0)
    world.changed(
        group_change(group_on("b", recoverable=("b", "a")), 1),
        group_change(group_on("b"), 1, other),
    )
    world.begin("b", life="2")
    assert set(world.node.replicas) == {NAME}
    assert world.host.replica.mirror.levels == world.files.of().levels


def test_a_copy_of_a_transient_queue_is_not_claimed_at_the_start() -> None:
    """Its disk's copy is of an earlier life, and nothing of it counts."""
    world = MachineWorld()
    world.topology.add("b", durable=False)
    world.files.of(NAME).level(0)
    world.changed(group_change(group_on("b", recoverable=("b", "a")), 1))
    world.begin("b", life="2")
    assert world.node.replicas == {}


def test_a_node_that_alone_had_everything_leads_again_when_it_is_back() -> None:
    """6-13: nobody else is alive; the group begins again with what the disk has."""
    world = MachineWorld()
    world.topology.add("a")
    world.topology.policies["/"] = ALL
    world.files.of(NAME).level(0)
    world.changed(group_change(group_on("a"), 1))
    world.version = 1
    actions = world.begin(life="2")
    (group,) = proposed(actions)
    assert (group.leader, group.epoch) == ("a/2/1", 2)
    world.store()
    assert world.host.replica.master is not None
    assert NAME in world.topology.here


# Links and sessions of others.


def test_the_session_of_a_process_that_is_gone_is_revoked(world: MachineWorld) -> None:
    assert world.tell(ProcessGone("b")) == [RevokeSession(session_of("b"))]


@pytest.mark.parametrize("event", [LinkUp, LinkDown, LinkGivenUp, ProcessGone])
def test_news_of_a_link_to_a_node_without_a_session_mean_nothing(
    world: MachineWorld, event: type[LinkUp]
) -> None:
    assert world.tell(event("d")) == []


def test_clients_wait_for_a_master_whose_link_is_given_up_and_go_back_with_the_next(
    world: MachineWorld,
) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    assert AwaitMaster(NAME) in world.tell(LinkGivenUp("b"))
    world.tell(LinkDown("b"))
    assert Redirect(NAME, "b", True) in world.tell(LinkUp("b"))


def test_clients_wait_if_the_master_is_not_where_it_should_be(world: MachineWorld) -> None:
    """The node that answered knows more; the record that says who leads is on its way."""
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    assert AwaitMaster(NAME) in world.tell(MasterMissing(NAME, "b"))
    assert Redirect(NAME, "b", True) in world.tell(MasterMissing(NAME, "c"))


def test_clients_wait_for_a_queue_without_a_master_but_not_for_ever(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    world.changed(session_change("b", ""))
    assert only(world.advance(MASTERLESS_MS_MAX - 1), LoseMaster) == []
    assert only(world.advance(1), LoseMaster) == [LoseMaster(NAME, ("b", "c"))]


def test_the_time_to_wait_begins_anew_when_a_queue_has_had_a_master_again(
    world: MachineWorld,
) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    world.tell(LinkGivenUp("b"))
    world.advance(MASTERLESS_MS_MAX - 1)
    world.tell(LinkUp("b"))
    world.tell(LinkGivenUp("b"))
    assert only(world.advance(MASTERLESS_MS_MAX - 1), LoseMaster) == []
    assert only(world.advance(1), LoseMaster) == [LoseMaster(NAME, ("b", "c"))]


def test_a_queue_is_down_at_once_if_no_node_could_lead_it(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("b"), 1))
    actions = world.changed(session_change("b", ""))
    assert only(actions, LoseMaster) == [LoseMaster(NAME, ("b",))]
    assert only(actions, AwaitMaster) == []


def test_a_queue_is_waited_for_again_when_a_node_that_had_all_of_it_is_back(
    world: MachineWorld,
) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("b"), 1))
    world.changed(session_change("b", ""))
    assert AwaitMaster(NAME) in world.changed(session_change("b", "2"))


def test_nobody_waits_for_a_queue_that_is_deleted(world: MachineWorld) -> None:
    world.topology.add("b")
    world.changed(queue_change(), group_change(group_on("bc"), 1))
    world.tell(LinkGivenUp("b"))
    del world.topology.records[NAME]
    world.changed(group_change(None, 2))
    assert only(world.advance(MASTERLESS_MS_MAX), LoseMaster) == []


def test_transient_queues_whose_last_copy_ended_are_removed(world: MachineWorld) -> None:
    world.topology.policies["/"] = ALL
    world.topology.add("b", durable=False)
    world.changed(queue_change(), group_change(group_on("b"), 1))
    actions = world.changed(session_change("b", ""))
    assert only(actions, RemoveQueues) == [RemoveQueues(frozenset({NAME}))]


def test_a_node_without_a_session_removes_nothing() -> None:
    """What it sees may be old."""
    world = MachineWorld()
    world.tell(SessionPending("1"))
    world.tell(QueuesLoaded())
    world.topology.policies["/"] = ALL
    world.topology.add("b", durable=False)
    world.changed(session_change("b"), group_change(group_on("b"), 1))
    assert only(world.changed(session_change("b", "")), RemoveQueues) == []


# The ring, and news of it.


def test_frames_that_make_no_sense_or_are_of_a_group_that_ended_are_dropped(
    world: MachineWorld,
) -> None:
    world.led("b")
    (sent,) = only(world.tell(LinkUp("b")), SendFrame)
    assert world.tell(FramesArrived(b"nonsense")) == []
    other = MachineWorld()
    other.begin("a")
    assert other.tell(FramesArrived(b"".join(sent.buffers))) == []


def test_news_of_groups_that_have_no_replica_here_mean_nothing(world: MachineWorld) -> None:
    for news in (Held((HeldCopy("other", "b/1/1", 1, 1),)), Kept("other", "b/1/1", 1, [], {})):
        assert world.tell(NewsArrived(news)) == []


def test_a_mirror_that_holds_everything_is_admitted_to_those_in_sync(world: MachineWorld) -> None:
    """`b` joined and told what it has from before: nothing, and the queue is empty."""
    world.led("b", insync="a")
    (mirror,) = (m for m in world.group.members if m.node == "b")
    world.tell(NewsArrived(Kept(UID, mirror.id, world.group.epoch, [], {})))
    world.end_turn()
    number = world.host.replica.master.number
    actions = world.tell(NewsArrived(Held((HeldCopy(UID, mirror.id, world.group.epoch, number),))))
    (group,) = proposed(actions)
    assert mirror.id in group.insync


# Groups begin and end.


def test_a_queue_that_a_policy_mirrors_begins_a_group(world: MachineWorld) -> None:
    """Numbers of messages that the queue has had say in which epoch the group begins."""
    world.next_sequences[NAME] = 5
    actions = world.declare()
    (group,) = proposed(actions)
    assert (group.uid, group.leader, group.epoch) == (UID, "a/1/1", 1)
    (commit,) = only(actions, Commit)
    assert commit.checks == (Check(group_key(*NAME), 0),)
    told = only(world.store(), TellNode)
    assert [(each.node, each.news) for each in told] == [
        (node, BecomeMirror(*NAME, UID)) for node in "bc"
    ]


def test_a_transient_queue_is_stored_without_a_lease_before_its_group_begins(
    world: MachineWorld,
) -> None:
    assert world.declare(durable=False) == [RenewQueue(NAME)]
    assert world.changed(policy_change()) == []
    assert len(proposed(world.tell(QueueRenewed(NAME, True)))) == 1


def test_a_transient_queue_that_could_not_be_stored_is_tried_again(world: MachineWorld) -> None:
    world.declare(durable=False)
    world.tell(QueueRenewed(NAME, False))
    assert only(world.advance(RETRY_MS), RenewQueue) == [RenewQueue(NAME)]


def test_an_answer_about_a_queue_that_nobody_asked_about_means_nothing(
    world: MachineWorld,
) -> None:
    """A dissolved group's queue is stored with a lease again, and that is all."""
    assert world.tell(QueueRenewed(NAME, True)) == []


def test_a_group_ends_with_its_policy_when_the_master_is_alone(world: MachineWorld) -> None:
    world.led("", policy={**ALL, "ha-mode": "exactly", "ha-params": 1})
    world.topology.policies["/"] = {}
    (commit,) = only(world.changed(policy_change()), Commit)
    assert commit.operations == (Delete(group_key(*NAME)),)
    world.store()
    assert (world.node.replicas, NAME in world.topology.here) == ({}, True)
    assert "group has ended" in world.stories()


def test_a_group_that_could_not_be_deleted_is_dissolved_later(world: MachineWorld) -> None:
    world.led("", policy={**ALL, "ha-mode": "exactly", "ha-params": 1})
    world.topology.policies["/"] = {}
    world.changed(policy_change())
    world.refuse()
    assert world.commits == []
    (commit,) = only(world.advance(RETRY_MS), Commit)
    assert commit.operations == (Delete(group_key(*NAME)),)


def test_a_transient_queue_whose_group_ended_is_stored_with_its_lease_again(
    world: MachineWorld,
) -> None:
    policy = {**ALL, "ha-mode": "exactly", "ha-params": 1}
    world.declare(policy, durable=False)
    world.tell(QueueRenewed(NAME, True))
    world.store()
    world.topology.policies["/"] = {}
    world.changed(policy_change())
    assert RenewQueue(NAME) in world.store()


# What was overlooked.


def test_a_trigger_that_is_skipped_is_noticed(world: MachineWorld) -> None:
    """The queue is declared, and nobody tells the machine."""
    world.is_checked = False
    world.topology.policies["/"] = ALL
    world.topology.add("a")
    world.topology.here.add(NAME)
    assert world.node.overlooked() == [(NAME, BeginGroup())]
    world.changed(queue_change())
    assert world.node.overlooked() == []


def test_answers_that_nobody_waits_for_mean_nothing(world: MachineWorld) -> None:
    assert world.tell(CommitAnswered(999, True)) == []
